"""LCNet at width 0.5 (TIMM suite, lcnet_050): inference at batch 256.

Stands for a mobile network whose kernels are many and short even at a large batch. timm's model
with random weights, 224 pixels.
"""

from __future__ import annotations

import torch

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import vision


def _build(setting: Setting) -> Case:
    timm = vision.timm_package()
    model = timm.create_model("lcnet_050", pretrained=False)
    vision.settle_batch_norms(model, torch.randn(4, 3, 64, 64))
    model = model.to(device=setting.device, dtype=setting.dtype).eval()
    shape = setting.pick((256, 3, 224, 224), (1, 3, 32, 32))

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(args=(draw.normal(*shape, dtype=setting.dtype),))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="lcnet_050_inference", suite="TIMM", batch=256, build=_build, packages=vision.TIMM
    ),
)
