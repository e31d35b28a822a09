"""Mask R-CNN with a ResNet-50 FPN (TorchBench suite, vision_maskrcnn): inference at batch 1.

Stands for a model full of data-dependent shapes: box filtering, suppression and per-level pooling
break the graph many times, and constants such as image sizes live on the CPU. torchvision's model
with random weights in float16 (the original suite replaces bfloat16 for it, too), images of 427 x
640 pixels. Random weights find the most objects allowed (100), where trained ones find a dozen.
Compared are the best scores only, since near-ties may come out in another order.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.workloads.base import Batch, Case, Draw, Setting, Workload
from benchmarks.workloads.zoo import vision


def _best_scores(outputs: Any) -> list[torch.Tensor]:
    """The ten best scores of each image."""
    return [detected["scores"].float().sort(descending=True).values[:10] for detected in outputs]


def _build(setting: Setting) -> Case:
    models = vision.torchvision_models()
    small: dict[str, Any] = setting.pick(
        {},
        {
            "min_size": 32,
            "max_size": 48,
            "rpn_pre_nms_top_n_test": 10,
            "rpn_post_nms_top_n_test": 5,
            "box_detections_per_img": 3,
        },
    )
    model = models.detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None, **small)
    vision.settle_batch_norms(model.backbone, torch.randn(1, 3, 128, 128))
    model = model.to(device=setting.device, dtype=setting.dtype).eval()
    height, width = setting.pick((427, 640), (32, 48))

    def draw_batch(draw: Draw, index: int) -> Batch:
        return Batch(args=([draw.uniform(0, 1, 3, height, width, dtype=setting.dtype)],))

    return Case(model, draw_batch)


WORKLOADS = (
    Workload(
        name="maskrcnn_inference",
        suite="TB",
        batch=1,
        build=_build,
        precision="fp16",
        packages=vision.TORCHVISION,
        compared=_best_scores,
        tolerance=0.2,
        traits=("graph breaks", "CPU tensors", "dynamic shapes"),
    ),
)
