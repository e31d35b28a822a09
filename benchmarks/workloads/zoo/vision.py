"""Importing torchvision and timm, also where torchvision's compiled operators do not load.

torchvision's wheels hold operators compiled for one build of torch; beside another build (a
CPU-only one, say) even the import fails, because it refers to operators that nobody declared. Here
they are declared through ``torch.library`` first, and non-maximum suppression gets a plain
implementation, so that models can run at smoke-test size. Nothing is changed where the compiled
operators load, so measurements use torchvision's own.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from types import ModuleType

import torch
from torch import nn

TORCHVISION = ("torchvision",)
TIMM = ("timm", "torchvision")


@functools.cache
def prepare_torchvision() -> torch.library.Library | None:
    """Makes ``import torchvision`` work, for packages that import it where it is installed.

    Returns the library that holds the declared operators, or None if nothing had to be declared.
    """
    if importlib.util.find_spec("torchvision") is None:
        return None
    try:
        importlib.import_module("torchvision")
        return None
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.impl(name, _suppress, "CPU")
    boxes = importlib.import_module("torchvision.ops.boxes")
    align = importlib.import_module("torchvision.ops.roi_align")
    setattr(boxes, "_assert_has_ops", lambda: None)  # noqa: B010
    # The fallback in Python compiles itself on first use, which takes longer than it saves here.
    setattr(align, "_roi_align", align._roi_align.__wrapped__)  # noqa: B010
    return library


def _suppress(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """Greedy non-maximum suppression: indices of kept boxes, best first."""
    order = scores.argsort(descending=True)
    boxes = boxes[order].float()
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    corner_low = torch.maximum(boxes[:, None, :2], boxes[None, :, :2])
    corner_high = torch.minimum(boxes[:, None, 2:], boxes[None, :, 2:])
    shared = (corner_high - corner_low).clamp(min=0).prod(-1)
    overlaps = shared / (area[:, None] + area[None] - shared) > threshold
    kept = torch.ones(len(boxes), dtype=torch.bool)
    for row in range(len(boxes)):
        if kept[row]:
            kept[row + 1 :] &= ~overlaps[row, row + 1 :]
    return order[kept]


def torchvision_models() -> ModuleType:
    """``torchvision.models``. Raises ``ModuleNotFoundError`` if torchvision is not installed."""
    prepare_torchvision()
    return importlib.import_module("torchvision.models")


def timm_package() -> ModuleType:
    """``timm``. Raises ``ModuleNotFoundError`` if it, or torchvision, is not installed."""
    prepare_torchvision()
    return importlib.import_module("timm")


def settle_batch_norms(model: nn.Module, images: torch.Tensor) -> None:
    """Sets the running statistics of every batch norm from one batch, so that random weights
    neither grow nor shrink activations out of the range of 16-bit types.
    """
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    model.train()
    with torch.no_grad():
        model(images)
    model.eval()
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
