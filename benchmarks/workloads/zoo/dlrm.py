"""Deep learning recommendation model (TorchBench suite, dlrm): inference at batch 2048.

Stands for a CPU tensor made in ``forward`` that indexes a GPU tensor: the pairs of features whose
dot products are kept are a Python list turned into a tensor on every call. Written anew from Naumov
et al. (2019): eight embedding tables of one million rows by 64, summed over 100 look-ups a sample,
a bottom network 512-512-64 and a top network 1024-1024-1024-1 over the pairwise dot products.
Inputs are uniform, where real ones are skewed.
"""

from __future__ import annotations

import itertools

import torch
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload


def _network(widths: list[int]) -> nn.Sequential:
    """Linear layers with ReLU after each."""
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class Dlrm(nn.Module):
    """Dense features (batch, features) and, for each table, indices and offsets, to click scores
    (batch, 1).
    """

    def __init__(
        self, rows: int, tables: int, width: int, bottom: list[int], top: list[int]
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bottom = _network(bottom)
        pairs = (tables + 1) * tables // 2
        self.top = _network([width + pairs, *top])
        self.head = nn.Linear(top[-1], 1)

    def interactions(self, dense: torch.Tensor, sparse: list[torch.Tensor]) -> torch.Tensor:
        """The dense vector and the dot products of all pairs of feature vectors: (batch, width +
        pairs).
        """
        features = torch.stack([dense, *sparse], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        count = features.shape[1]
        rows = torch.tensor([i for i in range(count) for _ in range(i)])
        columns = torch.tensor([j for i in range(count) for j in range(i)])
        return torch.cat([dense, products[:, rows, columns]], dim=1)

    def forward(
        self, dense: torch.Tensor, indices: list[torch.Tensor], offsets: list[torch.Tensor]
    ) -> torch.Tensor:
        """See the class; ``indices[t]`` is (batch * look-ups,), ``offsets[t]`` is (batch,)."""
        dense = self.bottom(dense)
        sparse = [
            table(index, offset)
            for table, index, offset in zip(self.tables, indices, offsets, strict=True)
        ]
        return torch.sigmoid(self.head(self.top(self.interactions(dense, sparse))))


def _build(setting: Setting) -> Case:
    rows, tables, width, look_ups = setting.pick((1_000_000, 8, 64, 100), (50, 3, 8, 4))
    bottom = setting.pick([512, 512, 64], [16, 16, 8])
    top = setting.pick([1024, 1024, 1024], [16, 16])
    batch = setting.pick(2048, 4)
    with torch.device(setting.device):
        model = Dlrm(rows, tables, width, bottom, top)
    model = model.to(setting.dtype).eval()

    def draw_batch(draw: Draw, index: int) -> Batch:
        dense = draw.normal(batch, bottom[0], dtype=setting.dtype)
        indices = [draw.integers(0, rows, batch * look_ups) for _ in range(tables)]
        step = torch.arange(0, batch * look_ups, look_ups, device=setting.device)
        return Batch(args=(dense, indices, [step.clone() for _ in range(tables)]))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(name="dlrm_inference", suite="TB", batch=2048, build=_build, traits=("CPU tensors",)),
)
