"""One test class for each model: transformers' shared tests, on this benchmark's small models.

Run by ``own_tests.py``, which says in the environment which models. What a test asks of its own
small model beyond a configuration and inputs is not there; such a test fails before the fixes too.
"""

from __future__ import annotations

import os
import sys
import types
import unittest
from typing import Any

import pytest
import torch

from benchmarks.fix_models.copies import PACKAGE
from benchmarks.lint_truth import packages, preload
from benchmarks.lint_truth.builders import Entry, transformers_inputs, transformers_model
from benchmarks.lint_truth.catalogue import catalogue

packages.declare_vision_operators()
preload.load()


def _mixin() -> type:
    """transformers' shared tests; those of text generation are not distributed."""
    missing = types.ModuleType("tests.generation.test_utils")
    missing.GenerationTesterMixin = type("GenerationTesterMixin", (), {})  # type: ignore[attr-defined]
    sys.modules["tests.generation"] = types.ModuleType("tests.generation")
    sys.modules["tests.generation.test_utils"] = missing
    from tests.test_modeling_common import ModelTesterMixin  # type: ignore[import-not-found]

    mixin: type = ModelTesterMixin
    return mixin


class _Small:
    """What the shared tests take their models from."""

    is_training = True

    def __init__(self, entry: Entry) -> None:
        self.entry = entry

    def prepare_config_and_inputs_for_common(self) -> tuple[Any, dict[str, Any]]:
        """A configuration and inputs, the same in every test."""
        torch.manual_seed(0)
        model, config = transformers_model(self.entry)
        inputs = transformers_inputs(self.entry, model, config)
        return type(config).from_dict(config.to_dict()), inputs  # without the model's choices


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def _tests(entry: Entry) -> type:
    def set_up(self: Any) -> None:
        self.model_tester = _Small(entry)

    model = getattr(__import__(PACKAGE), entry.cls)
    body = {"all_model_classes": (model,), "setUp": set_up}
    return type(f"Test{entry.name}", (_mixin(), unittest.TestCase), body)


_ENTRIES = {entry.name: entry for entry in catalogue()}
for _name in os.environ["FIX_MODELS_TESTED"].split():
    globals()[f"Test{_name}"] = _tests(_ENTRIES[_name])
