"""Modules that get other modules, and compute with their weights, are no models."""

from __future__ import annotations

import pytest

from tests.analysis.programs import kinds

SOURCE = """
import torch
from torch import nn

class Average(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, {parameters}):
        if self.steps >= 0:
            self.steps += 1
        return {result}
"""


@pytest.mark.parametrize(
    ("parameters", "result", "reported"),
    [
        ("model: nn.Module", "None", False),
        ("model: torch.nn.Module", "None", False),
        ("model", "dict(model.named_parameters())", False),
        ("model", "[p.sum() for p in model.parameters()]", False),
        ("model, x", "dict(model.named_parameters())", True),
        ("model: nn.Module, x: torch.Tensor", "model(x)", True),
        ("x", "x * 2", True),
        ("x=None", "self.state_dict()", True),
    ],
)
def test_a_module_that_gets_modules_is_no_model(
    parameters: str, result: str, reported: bool
) -> None:
    found = kinds(SOURCE.format(parameters=parameters, result=result))
    assert ("branch.if" in found) is reported
