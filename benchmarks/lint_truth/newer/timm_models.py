"""Models of timm that the other set does not measure: a small one of each remaining module."""

from __future__ import annotations

import importlib
import re
from typing import Any

import torch

from benchmarks.lint_truth.build_timm import MODELS
from benchmarks.lint_truth.builders import Entry, Inputs
from benchmarks.lint_truth.shapes import BATCH

MOST_MILLIONS = 60

#: Parts of registered names that say how large a model is, the smallest first.
_SIZES = (
    *("test", "femto", "atto", "zepto", "nano", "pico", "xxtiny", "xxsmall", "xxs", "xtiny"),
    *("xsmall", "xs", "tiny", "t0", "ti", "lite0", "b0", "s0", "m0", "l1", "s12", "small", "050"),
    *("s", "18", "14", "base", "b", "m"),
)


def _rank(name: str) -> tuple[int, int, str]:
    """Sort key: the smallest size that the name speaks of, then the shortest name."""
    parts = re.split(r"[_.]", name)
    return min((_SIZES.index(p) for p in parts if p in _SIZES), default=99), len(name), name


def _chosen() -> list[str]:
    """One registered name of each module of timm from which none is measured yet."""
    timm: Any = importlib.import_module("timm")
    chosen = []
    for module in timm.list_modules():
        names = timm.list_models(module=module)
        if names and not set(names) & set(MODELS):
            chosen.append(min(names, key=_rank))
    return chosen


def entries() -> list[Entry]:
    """The measured models, in train mode: stochastic depth and dropout take part."""
    return [
        Entry(
            f"timm/{name}",
            "timm",
            name,
            family=f"timm/{name.partition('_')[0]}",
            modes=("train",),
            builder=__name__,
        )
        for name in _chosen()
    ]


def build(entry: Entry, mode: str) -> tuple[torch.nn.Module, Inputs]:
    """The model and one batch of images of the smallest size that it takes.

    Raises ValueError for a model that is not small.
    """
    timm: Any = importlib.import_module("timm")
    with torch.device("meta"):
        model = timm.create_model(entry.cls, pretrained=False, num_classes=10)
    size_m = sum(weight.numel() for weight in model.parameters()) // 10**6
    if size_m > MOST_MILLIONS:
        raise ValueError(f"not small: {size_m} million parameters")
    model = timm.create_model(entry.cls, pretrained=False, num_classes=10)
    channels, *size = model.default_cfg["input_size"]
    if not model.default_cfg.get("fixed_input_size"):
        small = torch.randn(BATCH, channels, 96, 96)
        try:
            with torch.no_grad():
                model.eval()(small)
            return model, {"x": small}
        except Exception:  # a size that its strides or windows do not divide
            model = timm.create_model(entry.cls, pretrained=False, num_classes=10)
    return model, {"x": torch.randn(BATCH, channels, *size)}
