"""Imports that every forked worker shares, and their settings."""

from __future__ import annotations

import importlib
import logging
import warnings


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
    importlib.import_module("transformers").logging.set_verbosity_error()
    logging.getLogger("torch").setLevel(logging.CRITICAL)
