"""Building Hugging Face models with random weights from a configuration."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.workloads.base import Setting
from benchmarks.workloads.zoo.vision import prepare_torchvision

PACKAGES = ("transformers",)

# Dropout stays in the graph, with its random numbers, but never drops anything, so that variants
# can be compared.
_NEGLIGIBLE_DROPOUT = 1e-30


def package() -> ModuleType:
    """``transformers``, which imports torchvision where that is installed."""
    prepare_torchvision()
    return importlib.import_module("transformers")


def build(class_name: str, config_name: str, setting: Setting, **sizes: Any) -> nn.Module:
    """A random-weight model of ``transformers`` on the setting's device and in its dtype.

    The caller chooses train or eval mode. Raises ``AttributeError`` if this version of transformers
    lacks the class.
    """
    transformers = package()
    config = getattr(transformers, config_name)(**sizes)
    for name, value in vars(config).items():
        # A layer dropped with probability 0 is none: that test is the model's own.
        if "drop" in name and isinstance(value, float) and (value or "layerdrop" not in name):
            setattr(config, name, _NEGLIGIBLE_DROPOUT)
    with torch.device(setting.device):
        model = getattr(transformers, class_name)(config)
    return model.to(device=setting.device, dtype=setting.dtype)


def token_loss(outputs: Any, target: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of ``outputs.logits`` (batch, length, vocabulary) against ``target``
    (batch, length).
    """
    logits = outputs.logits
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), target.reshape(-1))
