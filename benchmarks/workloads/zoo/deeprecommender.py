"""Deep autoencoder for recommendations (TorchBench suite, nvidia_deeprecommender): inference at
batch 8192, training at 256.

Stands for very large inputs: each row is a dense vector of 197951 item ratings, so one inference
batch is 3.2 GB in bfloat16 and is copied whole by graphs that need fixed input addresses. Written
anew from Kuchaiev and Ginsburg (2017): SELU layers 197951-512-512-1024 and back, dropout of 0.8
after the bottleneck (made negligible here, so that variants can be compared). The training loss is
the masked squared error, outside the compiled model.
"""

from __future__ import annotations

import itertools

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload

_DROPOUT = 1e-30


class AutoEncoder(nn.Module):
    """Ratings (batch, items) to predicted ratings (batch, items)."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        super().__init__()
        self.encoder = nn.ModuleList(itertools.starmap(nn.Linear, itertools.pairwise(widths)))
        self.decoder = nn.ModuleList(itertools.starmap(nn.Linear, itertools.pairwise(widths[::-1])))

    def forward(self, ratings: torch.Tensor) -> torch.Tensor:
        """See the class."""
        hidden = ratings
        for layer in self.encoder:
            hidden = F.selu(layer(hidden))
        hidden = F.dropout(hidden, _DROPOUT, self.training)
        for layer in self.decoder:
            hidden = F.selu(layer(hidden))
        return hidden


def _loss(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    rated = target != 0
    return ((outputs.float() - target) * rated).square().sum() / rated.sum()


def _build(setting: Setting, batch: int, training: bool) -> Case:
    items = setting.pick(197951, 300)
    model = AutoEncoder(setting.pick((items, 512, 512, 1024), (items, 16, 16, 32)))
    model = model.to(device=setting.device, dtype=setting.dtype).train(training)
    rows = setting.pick(batch, 4)

    def draw_batch(draw: Draw, index: int) -> Batch:
        ratings = draw.uniform(0.0, 5.0, rows, items, dtype=setting.dtype)
        return Batch(args=(ratings,), target=ratings if training else None)

    return Case(model, draw_batch, loss=_loss if training else None)


WORKLOADS = (
    Workload(
        name="deeprecommender_inference",
        suite="TB",
        batch=8192,
        build=lambda setting: _build(setting, 8192, training=False),
        traits=("large copies",),
    ),
    Workload(
        name="deeprecommender_training",
        suite="TB",
        batch=256,
        build=lambda setting: _build(setting, 256, training=True),
        training=True,
        precision="amp",
        traits=("large copies",),
    ),
)
