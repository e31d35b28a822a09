"""EfficientDet-D1 (TIMM models in the TorchBench suite, timm_efficientdet): training at batch 1.

Stands for training a model of a great many small kernels at batch 1, where host time is almost
everything. The backbone is timm's EfficientNet-B1; the rest is written anew from Tan, Pang and Le
(2020): four bidirectional feature pyramid layers of 88 channels with fast normalised fusion, class
and box heads of three separable convolutions each, 90 classes, 640 pixels. Targets are drawn for
every anchor directly instead of being matched to boxes, and the focal and Huber losses are outside
the compiled model.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import vision

_LEVELS = 5
_ANCHORS = 9


class Separable(nn.Module):
    """Depth-wise then point-wise convolution, optionally with batch norm and SiLU."""

    def __init__(self, inputs: int, outputs: int, normed: bool = True) -> None:
        super().__init__()
        self.depth = nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False)
        self.point = nn.Conv2d(inputs, outputs, 1, bias=not normed)
        self.norm = nn.BatchNorm2d(outputs) if normed else nn.Identity()

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Keeps height and width."""
        return self.norm(self.point(self.depth(features)))


class Fusion(nn.Module):
    """Weighted mean of two or three feature maps with learned non-negative weights, then a
    convolution.
    """

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(inputs))
        self.conv = Separable(channels, channels)

    def forward(self, *features: torch.Tensor) -> torch.Tensor:
        """All of one shape."""
        weights = F.relu(self.weights)
        weights = weights / (weights.sum() + 1e-4)
        mixed = sum(weight * feature for weight, feature in zip(weights, features, strict=True))
        return self.conv(F.silu(mixed))


class PyramidLayer(nn.Module):
    """One bidirectional pass: coarse to fine, then fine to coarse."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down = nn.ModuleList(Fusion(2, channels) for _ in range(_LEVELS - 1))
        self.up = nn.ModuleList(
            Fusion(3 if level < _LEVELS - 1 else 2, channels) for level in range(1, _LEVELS)
        )

    def forward(self, features: list[torch.Tensor]) -> list[torch.Tensor]:
        """Five maps, finest first, to five of the same shapes."""
        coarse = [features[-1]]
        for fusion, feature in zip(self.down, reversed(features[:-1]), strict=True):
            above = F.interpolate(coarse[-1], size=feature.shape[-2:])
            coarse.append(fusion(feature, above))
        middle = coarse[::-1]
        outputs = [middle[0]]
        for level, fusion in enumerate(self.up, start=1):
            below = F.adaptive_max_pool2d(outputs[-1], features[level].shape[-2:])
            if level < _LEVELS - 1:
                outputs.append(fusion(features[level], middle[level], below))
            else:
                outputs.append(fusion(features[level], below))
        return outputs


class Head(nn.Module):
    """Convolutions shared by all levels, batch norms of each level's own, one prediction per
    anchor.
    """

    def __init__(self, channels: int, depth: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.convs = nn.ModuleList(
            Separable(channels, channels, normed=False) for _ in range(depth)
        )
        self.norms = nn.ModuleList(
            nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth)) for _ in range(_LEVELS)
        )
        self.predict = Separable(channels, _ANCHORS * outputs, normed=False)

    def forward(self, features: list[torch.Tensor]) -> torch.Tensor:
        """Five maps to (batch, anchors of all levels, outputs)."""
        predictions = []
        for hidden, norms in zip(features, self.norms, strict=True):
            for conv, norm in zip(self.convs, norms.children(), strict=True):
                hidden = F.silu(norm(conv(hidden)))
            flat = self.predict(hidden).permute(0, 2, 3, 1)
            predictions.append(flat.reshape(flat.shape[0], -1, self.outputs))
        return torch.cat(predictions, dim=1)


class EfficientDet(nn.Module):
    """Images (batch, 3, pixels, pixels) to class logits (batch, anchors, classes) and boxes (batch,
    anchors, 4).
    """

    def __init__(
        self, backbone: nn.Module, sources: list[int], channels: int, layers: int, depth: int
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.reduce = nn.ModuleList(nn.Conv2d(source, channels, 1) for source in sources)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in sources)
        self.coarser = nn.Conv2d(sources[-1], channels, 1)
        self.pyramid = nn.Sequential(*(PyramidLayer(channels) for _ in range(layers)))
        self.classes = Head(channels, depth, 90)
        self.boxes = Head(channels, depth, 4)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """See the class."""
        maps = self.backbone(images)
        features = [
            norm(reduce(feature))
            for norm, reduce, feature in zip(self.norms, self.reduce, maps, strict=True)
        ]
        features.append(F.max_pool2d(self.coarser(maps[-1]), 3, 2, 1))
        features.append(F.max_pool2d(features[-1], 3, 2, 1))
        features = self.pyramid(features)
        return self.classes(features), self.boxes(features)


def _loss(
    outputs: tuple[torch.Tensor, torch.Tensor], target: tuple[torch.Tensor, torch.Tensor]
) -> torch.Tensor:
    """Focal loss (gamma 1.5, alpha 0.25) over classes plus 50 times the Huber loss over boxes."""
    logits, boxes = (output.float() for output in outputs)
    wanted = F.one_hot(target[0], logits.shape[-1]).to(logits.dtype)
    entropy = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    probability = torch.sigmoid(logits)
    missed = wanted * (1 - probability) + (1 - wanted) * probability
    alpha = wanted * 0.25 + (1 - wanted) * 0.75
    focal = (alpha * missed**1.5 * entropy).sum() / target[0].numel()
    return focal + 50 * F.huber_loss(boxes, target[1], delta=0.1)


def _build(setting: Setting) -> Case:
    timm = vision.timm_package()
    name, channels, layers, depth, pixels = setting.pick(
        ("efficientnet_b1", 88, 4, 3, 640), ("lcnet_035", 8, 1, 1, 256)
    )
    backbone = timm.create_model(
        name, pretrained=False, features_only=True, out_indices=(2, 3, 4), drop_path_rate=0.0
    )
    model = EfficientDet(backbone, backbone.feature_info.channels(), channels, layers, depth)
    model = model.to(device=setting.device, dtype=setting.dtype).train()
    side = pixels // 8
    cells = 0
    for _ in range(_LEVELS):
        cells += side * side
        side = (side + 1) // 2

    def draw_batch(draw: Draw, index: int) -> Batch:
        images = draw.normal(1, 3, pixels, pixels, dtype=setting.dtype)
        anchors = cells * _ANCHORS
        target = (draw.integers(0, 90, 1, anchors), draw.normal(1, anchors, 4))
        return Batch(args=(images,), target=target)

    return Case(model, draw_batch, loss=_loss)


WORKLOADS = (
    Workload(
        name="efficientdet_training",
        suite="TB",
        batch=1,
        build=_build,
        training=True,
        precision="amp",
        packages=vision.TIMM,
        tolerance=0.2,
        traits=("mutated buffers", "many small kernels"),
    ),
)
