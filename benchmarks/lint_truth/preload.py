"""Imports that every forked worker shares, and their settings."""

from __future__ import annotations

import contextlib
import importlib
import logging
import warnings

#: Models that import most of what other models import.
_MODELS = (
    "transformers.models.llama.modeling_llama",
    "transformers.models.detr.modeling_detr",
    "transformers.models.whisper.modeling_whisper",
    "transformers.models.siglip.modeling_siglip",
    "transformers.loss.loss_utils",
    "scipy.optimize",
    "timm",
    "diffusers.models.attention_processor",
)


def _compile_once() -> None:
    """Dynamo imports half of itself when it first compiles: once here, not in every worker."""
    import torch

    compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")
    compiled(torch.ones(1, 2)).sum().backward()
    torch._dynamo.reset()


def load() -> None:
    """Import the heavy modules once, silence their logging."""
    warnings.filterwarnings("ignore")
    for name in ("torch._dynamo", "torch._dynamo.convert_frame", "torchvision", "transformers"):
        importlib.import_module(name)
    for name in (
        "transformers.modeling_utils",
        "transformers.models.auto.modeling_auto",
        "torch._dynamo.trace_rules",
    ):
        importlib.import_module(name)
    for name in _MODELS:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("transformers").logging.set_verbosity_error()
    _compile_once()
    logging.getLogger("torch").setLevel(logging.CRITICAL)
