"""AlexNet (TorchBench suite): inference at batch 2.

Stands for a small convolutional network whose weights (two linear layers of 4096) outweigh its
work: launch-bound, and bound by reading weights. torchvision's model with random weights, 224
pixels.
"""

from __future__ import annotations

from torch import nn

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import vision


def _build(setting: Setting) -> Case:
    models = vision.torchvision_models()
    model: nn.Module = models.alexnet(weights=None, num_classes=setting.pick(1000, 10))
    model = model.to(device=setting.device, dtype=setting.dtype).eval()
    shape = setting.pick((2, 3, 224, 224), (1, 3, 64, 64))

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(args=(draw.normal(*shape, dtype=setting.dtype),))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="alexnet_inference", suite="TB", batch=2, build=_build, packages=vision.TORCHVISION
    ),
)
