"""torchvision: detection with Faster R-CNN.

fasterrcnn_mobilenet_v3_large_320_fpn with random weights, evaluation of one image of 480 x 640
at a time; the backbone is compiled, the rest runs on lists of boxes.
"""

from __future__ import annotations

import torch

from benchmarks.frameworks.base import Framework, How, Meter, Setup


def loop(how: How, meter: Meter, setup: Setup) -> None:
    from torchvision.models import detection

    model = detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, box_score_thresh=0.0, box_detections_per_img=20
    )
    model.to(setup.device).eval()
    how.module(model.backbone)
    images = torch.rand(8, 3, setup.size(480, 64), setup.size(640, 64)).to(setup.device)
    with torch.no_grad():
        for number in range(meter.total):
            found = model([images[number % 8]])
            meter.tick(found[0]["scores"].sum())


FRAMEWORK = Framework(("torchvision",), loop, warm=40, steps=80)
