"""Making the measured packages importable, and telling their files from everybody else's."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import torch

PACKAGES = ("transformers", "timm", "diffusers")
_measured: list[str] = list(PACKAGES)

#: Operators of torchvision's compiled library, declared where that library does not load
#: (a torchvision wheel built for another torch), so that importing torchvision works.
_VISION_OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor",
    "roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    "ps_roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width, int sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
    "SymInt pooled_width) -> (Tensor, Tensor)",
    "deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask) -> Tensor",
)
_VISION_LIBRARIES: list[torch.library.Library] = []


def declare_vision_operators() -> None:
    """Declare torchvision's operators if its compiled library cannot provide them."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or _VISION_LIBRARIES:
        return
    library_file = Path((spec.submodule_search_locations or [""])[0]) / "_C.so"
    with contextlib.suppress(OSError):
        torch.ops.load_library(str(library_file))
        if hasattr(torch.ops.torchvision, "nms"):
            return
    library = torch.library.Library("torchvision", "FRAGMENT")
    _VISION_LIBRARIES.append(library)
    for schema in _VISION_OPERATORS:
        library.define(schema)


def measure(names: Iterable[str]) -> None:
    """Measure the packages with these import names, in this process and its forks."""
    _measured[:] = names
    package_roots.cache_clear()
    relative_name.cache_clear()


@cache
def package_roots() -> dict[str, str]:
    """Installed package name -> its folder, with a trailing separator, without importing it."""
    roots = {}
    for name in _measured:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            roots[name] = os.fspath(spec.submodule_search_locations[0]) + os.sep
    return roots


@cache
def relative_name(filename: str) -> str | None:
    """`filename` as "package/path.py" if it belongs to a measured package, else None."""
    for name, root in package_roots().items():
        if filename.startswith(root):
            return f"{name}/{filename[len(root) :].replace(os.sep, '/')}"
    return None


def is_torch_file(filename: str) -> bool:
    """Whether `filename` is part of the installed torch."""
    return filename.startswith(str(Path(torch.__file__).parent) + os.sep)
