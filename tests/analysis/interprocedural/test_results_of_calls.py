"""What a function gives depends on what this call passes, where it gives its parameters back."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, project

HELPERS = """
    def exists(value):
        return value is not None
    def default(value, other):
        if exists(value):
            return value
        return other() if callable(other) else other
    def pair(a, b):
        return a, b
    class Scale:
        def apply_to(self, value):
            return value * 2
"""
MODEL = """
    import torch
    from pkg.helpers import Scale, default, pair
    class Model(torch.nn.Module):
        def __init__(self, strength=0.0):
            super().__init__()
            self.strength = strength
        def forward(self, x: torch.Tensor, noise=None, strength=None):
            noise = default(noise, lambda: torch.randn_like(x))
            strength = default(strength, self.strength)
            TEST
            return x
"""


def branches(test: str) -> int:
    """How often the model branches on a tensor."""
    model = MODEL.replace("TEST", test)
    linked, facts = project(pkg__helpers=HELPERS, pkg__model=model)
    events = confirmed(linked, facts["pkg.model"])
    return sum(event.kind.startswith("branch") for event in events)


@pytest.mark.parametrize(
    "test",
    [
        "if noise > 0: x = -x",
        "if default(x, None) > 0: x = -x",
        "if default(other=x, value=None) > 0: x = -x",
        "if default(*(x, None)) > 0: x = -x",  # which argument it is is not known
        "if pair(x, 3)[0] > 0: x = -x",
        "if pair(b=x, a=3)[1] > 0: x = -x",
        "if Scale().apply_to(x) > 0: x = -x",
        "y = pair(x, 3) if self.training else pair(-x, 4)\n            if y[0] > 0: x = -x",
    ],
)
def test_a_tensor_passed_here_comes_back(test: str) -> None:
    assert branches(test) == 1


@pytest.mark.parametrize(
    "test",
    [
        "if strength > 0: x = -x",
        "if default(None, 3) > 0: x = -x",
        "if default(value=None, other=self.strength) > 0: x = -x",
        "if pair(x, 3)[1] > 0: x = -x",
        "if pair(b=x, a=3)[0] > 0: x = -x",
        "if Scale().apply_to(3) > Scale().apply_to(self.strength): x = -x",
    ],
)
def test_a_tensor_passed_elsewhere_does_not(test: str) -> None:
    assert branches(f"default(x, x); pair(x, x); Scale().apply_to(x)\n            {test}") == 0


def test_what_a_factory_with_the_name_of_a_class_makes_does_not_run_the_factory() -> None:
    source = """
import torch
from torch import nn
from torch.nn.modules.utils import _ntuple
def ConvBN(size):
    print(size)
    return nn.Sequential(nn.Conv2d(size, size, 1), nn.BatchNorm2d(size))
"""
    user = """
import torch
from torch import nn
from torch.nn.modules.utils import _ntuple
from a import ConvBN
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([ConvBN(3)])
        self.one = ConvBN(3)
class M(Base):
    def forward(self, x: torch.Tensor):
        sizes = _ntuple(2)(3)
        return self.one(self.down[0](x)) * float(sizes[0])
"""
    linked, facts = project(a=source, b=user)
    assert not confirmed(linked, facts["a"])
    assert not confirmed(linked, facts["b"])
