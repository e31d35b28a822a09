"""DenseNet-121 (TorchBench suite): inference at batch 64.

Stands for a convolutional network with hundreds of concatenations at a batch that keeps the GPU
fairly busy. torchvision's model with random weights, 224 pixels.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import vision


def _build(setting: Setting) -> Case:
    models = vision.torchvision_models()
    blocks = setting.pick((6, 12, 24, 16), (1, 2, 2, 1))
    growth, first = setting.pick((32, 64), (4, 8))
    model: nn.Module = models.densenet.DenseNet(growth, blocks, first, num_classes=1000)
    vision.settle_batch_norms(model, torch.randn(4, 3, 64, 64))
    model = model.to(device=setting.device, dtype=setting.dtype).eval()
    shape = setting.pick((64, 3, 224, 224), (1, 3, 32, 32))

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(args=(draw.normal(*shape, dtype=setting.dtype),))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="densenet121_inference",
        suite="TB",
        batch=64,
        build=_build,
        packages=vision.TORCHVISION,
    ),
)
