"""An anchor-free detector on images of changing size (today): batch 1, six sizes in turn,
``dynamic=True``.

Stands for serving images as they come: a graph per shape is recorded by CUDA graphs, and the number
of detections depends on the data (a boolean index, which breaks the graph or makes an unbacked
size). Written anew after FCOS (Tian et al., 2019): a residual backbone of 64 to 512 channels, a
three-level feature pyramid of 128 channels, shared heads of three convolutions, the best 200
candidates, of which those above a threshold are returned. Suppression is left out. Compared are the
scores of the fixed-size candidates, since near-ties may come out in another order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo.vision import settle_batch_norms

_SIZES = ((320, 320), (320, 480), (384, 384), (384, 512), (448, 448), (448, 640))
_TINY_SIZES = ((64, 64), (64, 96))


class Residual(nn.Module):
    """Two convolutions and a shortcut; halves the resolution when ``stride`` is 2."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm_first, self.norm_second = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """(batch, inputs, height, width) to (batch, outputs, height / stride, width / stride)."""
        hidden = F.relu(self.norm_first(self.first(features)))
        return F.relu(self.norm_second(self.second(hidden)) + self.shortcut(features))


def _tower(channels: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(channels, outputs, 3, padding=1))


class Detector(nn.Module):
    """Images (1, 3, height, width), sides divisible by 32, to kept boxes, their scores and all
    candidates' scores.
    """

    def __init__(self, widths: tuple[int, ...], channels: int, classes: int, best: int) -> None:
        super().__init__()
        self.best, self.classes = best, classes
        self.stem = nn.Conv2d(3, widths[0], 7, 4, 3, bias=False)
        pairs = list(zip((widths[0], *widths[:-1]), widths, strict=True))
        self.stages = nn.ModuleList(
            nn.Sequential(
                Residual(inputs, outputs, 1 if stage == 0 else 2), Residual(outputs, outputs, 1)
            )
            for stage, (inputs, outputs) in enumerate(pairs)
        )
        self.lateral = nn.ModuleList(nn.Conv2d(width, channels, 1) for width in widths[1:])
        self.scores, self.boxes = _tower(channels, classes), _tower(channels, 4)

    def pyramid(self, images: torch.Tensor) -> list[torch.Tensor]:
        """Feature maps at strides 8, 16 and 32, finest first."""
        hidden, maps = F.relu(self.stem(images)), []
        for stage in self.stages:
            hidden = stage(hidden)
            maps.append(hidden)
        merged: list[torch.Tensor] = []
        for lateral, features in zip(reversed(self.lateral), reversed(maps[1:]), strict=True):
            current = lateral(features)
            if merged:
                current = current + F.interpolate(merged[-1], scale_factor=2.0, mode="nearest")
            merged.append(current)
        return merged[::-1]

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Boxes (kept, 4), scores (kept,), candidate scores (best,)."""
        scores, boxes = [], []
        for level, features in enumerate(self.pyramid(images)):
            stride = 8 * 2**level
            scores.append(self.scores(features).flatten(2)[0].T)
            distances = self.boxes(features).exp().flatten(2)[0].T * stride
            height, width = features.shape[-2:]
            rows = torch.arange(height, device=images.device) * stride
            columns = torch.arange(width, device=images.device) * stride
            y, x = torch.meshgrid(rows, columns, indexing="ij")
            centre = torch.stack([x, y, x, y], dim=-1).reshape(-1, 4)
            sign = torch.tensor([-1, -1, 1, 1], device=images.device)
            boxes.append(centre + sign * distances)
        every = torch.cat(scores).sigmoid().amax(dim=-1)
        best, index = every.topk(self.best)
        candidates = torch.cat(boxes)[index]
        kept = best > best.float().mean()
        return candidates[kept], best[kept], best


def _candidate_scores(outputs: Any) -> list[torch.Tensor]:
    return [outputs[2]]


def _build(setting: Setting) -> Case:
    widths, channels, classes, best = setting.pick(
        ((64, 128, 256, 512), 128, 80, 200), ((8, 8, 16, 16), 8, 4, 10)
    )
    model = Detector(widths, channels, classes, best)
    settle_batch_norms(model, torch.randn(1, 3, 128, 128))
    model = model.to(device=setting.device, dtype=setting.dtype).eval()
    sizes = setting.pick(_SIZES, _TINY_SIZES)

    def draw_batch(draw: Draw, index: int) -> Batch:
        height, width = sizes[index % len(sizes)]
        return Batch(args=(draw.normal(1, 3, height, width, dtype=setting.dtype),))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="dynamic_detector",
        suite="today",
        batch=1,
        build=_build,
        dynamic=True,
        distinct_shapes=len(_SIZES),
        compared=_candidate_scores,
        traits=("dynamic shapes", "graph breaks"),
    ),
)
