"""Types by name: what an alias of another file means, and what may be a number as well."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

ALIASES = """
    from typing import NewType, Optional, Sequence, TypeVar, Union
    import torch
    Tensor = torch.Tensor
    OptTensor = Optional[Tensor]
    Vector = Union[Sequence[float], Tensor]
    Scalar = Union[float, Tensor]
    TensorT = TypeVar("TensorT", bound=Tensor)
    Logits = NewType("Logits", Tensor)
    Pair = tuple[Tensor, Tensor]
    class TensorBox:
        def __init__(self):
            self.value = torch.ones(3)
            self.count = 3
"""


def found(annotation: str, body: str, aliases: str = ALIASES) -> list[str]:
    source = f"""
    from pkg.types import {annotation.partition("[")[0]}
    def f(x: {annotation}, flag=None):
        {body}
    """
    linked, facts = project(RegionOptions(every=True), pkg__types=aliases, pkg__m=source)
    return [event.kind for event in confirmed(linked, facts["pkg.m"])]


@pytest.mark.parametrize("name", ["Tensor", "OptTensor", "Vector", "TensorT", "Logits"])
def test_an_alias_of_another_file_is_a_tensor(name: str) -> None:
    assert found(name, "return 1 if x > 0 else 2") == ["branch.ternary"]


def test_the_elements_of_an_alias_are_tensors() -> None:
    calls = "return 1 if x[1] > 0 else 2"
    source = f"from pkg.types import Pair, Tensor\ndef f(x: Pair, z: Tensor):\n    {calls}"
    linked, facts = project(RegionOptions(every=True), pkg__types=ALIASES, pkg__m=source)
    assert [event.kind for event in confirmed(linked, facts["pkg.m"])] == ["branch.ternary"]


def test_what_may_be_a_number_is_one_unless_a_caller_passes_a_tensor() -> None:
    assert found("Scalar", "return 1 if x > 0 else 2") == []


def test_a_class_is_no_tensor_and_its_attributes_are_what_they_are() -> None:
    assert found("TensorBox", "return 1 if x else 2") == []
    body = "flag.cos()\n        return 1 if x.value.sum() > 0 and x.count > 0 else 2"
    source = f"""
    import torch
    from pkg.types import TensorBox
    def f(x: TensorBox, flag: torch.Tensor):
        {body}
    """
    linked, facts = project(RegionOptions(every=True), pkg__types=ALIASES, pkg__m=source)
    assert [event.kind for event in confirmed(linked, facts["pkg.m"])] == ["branch.ternary"]


def test_an_alias_that_is_passed_on() -> None:
    source = "from pkg import OptTensor\ndef f(x: OptTensor):\n    return 1 if x > 0 else 2\n"
    package = "from .types import *\n"
    linked, facts = project(
        RegionOptions(every=True),
        pkg__types=ALIASES,
        pkg=package.replace(".types", "pkg.types"),
        pkg__m=source,
    )
    assert [event.kind for event in confirmed(linked, facts["pkg.m"])] == ["branch.ternary"]


@pytest.mark.parametrize("call", ["f(2.0)", "f(y)", "y"])
def test_a_number_or_a_tensor_may_be_a_tensor_whatever_callers_pass(call: str) -> None:
    source = f"""
    import torch
    def f(x: float | torch.Tensor):
        return 1 if x > 0 else 2
    def g(y: torch.Tensor):
        return {call}
    """
    linked, facts = project(RegionOptions(every=True), m=source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["branch.ternary"]


def test_parts_of_a_number_or_a_tensor() -> None:
    source = """
    import torch
    def f(x: float | torch.Tensor | None = None):
        return 1 if x[0] > 0 else 2
    """
    linked, facts = project(RegionOptions(every=True), m=source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == ["branch.ternary"]
