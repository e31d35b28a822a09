"""Arguments of compiled code that nothing explains but what is done with them."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import DEFAULT_REGIONS, RegionOptions
from tests.analysis.programs import confirmed, project

MODULE = """
    import torch
    class Model(torch.nn.Module):
        def forward(self, x):
            if x.sum() > 0:
                return x
            return -x
"""
COMPILED = """
    import torch
    @torch.compile
    def step(x):
        if x.sum() > 0:
            return x
        return -x
"""
NAMED = """
    import torch
    def step(x):
        if x.sum() > 0:
            return x
        return -x
    fast = torch.compile(step)
"""


def branches(model: str, asked: RegionOptions = DEFAULT_REGIONS) -> int:
    """How often the model branches on a tensor."""
    linked, facts = project(asked, pkg__model=model)
    events = confirmed(linked, facts["pkg.model"])
    return sum(event.kind.startswith("branch") for event in events)


@pytest.mark.parametrize("model", [MODULE, COMPILED, NAMED])
def test_an_argument_with_an_arrays_methods_is_a_tensor(model: str) -> None:
    assert branches(model) == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.sum() > 0", "x.sum > 0"),  # an attribute: distributions have a mean
        ("x.sum() > 0", "x.total() > 0"),
        ("x.sum() > 0", "x.sum() > 0 and x.rows"),  # what no tensor has
        ("def step(x)", "def step(x=3)"),  # the default is a number
        ("def step(x)", "def step(x: list)"),
        ("@torch.compile", "@torch.compiler.disable"),  # not compiled
    ],
)
def test_an_argument_that_may_be_something_else_is_not(old: str, new: str) -> None:
    assert old in COMPILED
    assert branches(COMPILED.replace(old, new)) == 0


def test_a_function_that_compiled_code_calls_is_told_by_its_callers() -> None:
    helper = """
    import torch
    def positive(x):
        if x.sum() > 0:
            return 1
        return 0
    @torch.compile
    def step(a, sizes: list):
        return a * positive({})
    """
    assert branches(helper.format("a.abs()")) == 1
    assert branches(helper.format("sizes")) == 0


def test_an_argument_that_may_be_a_tensor_does_not_speak_against_one() -> None:
    source = """
    import torch
    def positive(x):
        if x.sum() > 0:
            return 1
        return 0
    def step(a: torch.Tensor, kind):
        return a * positive({})
    """
    asked = RegionOptions((), every=True)
    assert branches(source.format("kind == 2"), asked) == 1
    assert branches(source.format("len(a) == 2"), asked) == 0
