"""Operators that classes of the project define: what runs there, and what they give."""

from __future__ import annotations

import pytest

from tests.analysis.programs import confirmed, project

CLASSES = """
import torch

class Pair:
    def __init__(self, a):
        self.a = a
    def __add__(self, other):
        return Pair(self.a + other.a.max().item())
    def __rmul__(self, number):
        return Pair(number * self.a.min().item())
    def __matmul__(self, other):
        if other.a.sum() > 0:
            return self
        return other
    def __getitem__(self, index):
        return self.a.tolist()
    def __sub__(self, other):
        return self.a - other.a
"""
MODEL = """
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        pair = Pair(x)
        other = Pair(x + 1)
        {}
        return x
"""


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("pair + other", ["sync.item"]),
        ("2 * pair", ["sync.item"]),
        ("pair @ other", ["branch.if"]),
        ("pair[0]", ["sync.tolist"]),
        ("pair - other", []),
        ("pair * 2", []),
        ("x = x if x.shape[0] + 1 else -x", []),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_what_an_operator_runs(statement: str, expected: list[str], apart: bool) -> None:
    model = MODEL.format(statement)
    if apart:
        linked, facts = project(a=CLASSES, b="import torch\nfrom a import Pair\n" + model)
    else:
        linked, facts = project(a=CLASSES + model)
    found = [event.kind for module in facts.values() for event in confirmed(linked, module)]
    assert [kind for kind in found if not kind.startswith("effect.")] == expected


TENSORS = """
class Plain:
    def __init__(self, a):
        self.a = a
    def __iadd__(self, other):
        print(other)
        return self
class Kept(Pair):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function(*args)
class Fields(NamedTuple):
    a: torch.Tensor
    def __add__(self, other):
        return self
class Sub(torch.Tensor):
    pass
class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int, given):
        pair, plain, kept, fields, sub = Pair(x), Plain(x), Kept(x), Fields(x), Sub(x)
        STATEMENT
        return x
"""


@pytest.mark.parametrize(
    ("statement", "breaks"),
    [
        ("pair + x", True),
        ("x.sum() - pair", True),
        ("pair * x[0]", True),
        ("pair += x", True),
        ("plain += x", True),
        ("x -= pair", True),
        ("~pair", False),  # it has no such operator
        ("pair @ pair", True),
        ("pair @ given", False),
        ("pair + n", False),
        ("2.0 * pair", False),
        ("pair + given", False),
        ("pair < x", False),
        ("pair + pair", False),
        ("kept + x", False),
        ("fields + x", False),
        ("sub + x", False),
        ("x + x", False),
    ],
)
def test_an_object_and_a_tensor(statement: str, breaks: bool) -> None:
    source = "from typing import NamedTuple\n" + CLASSES + TENSORS.replace("STATEMENT", statement)
    linked, facts = project(a=source)
    found = [event.kind for event in confirmed(linked, facts["a"])]
    assert ("effect.untraced-call" in found) is breaks


@pytest.mark.parametrize(("held", "kinds"), [("plain", ["call"]), ("pair", ["sync.item"])])
def test_an_operator_in_place(held: str, kinds: list[str]) -> None:
    source = CLASSES + TENSORS.replace("STATEMENT", f"{held} += Pair(x)")
    linked, facts = project(a="from typing import NamedTuple\n" + source)
    found = [event.kind for event in confirmed(linked, facts["a"])]
    assert [kind for kind in found if not kind.startswith("effect.")] == kinds


def test_what_an_operator_gives() -> None:
    linked, facts = project(a=CLASSES + MODEL.format("x = x + int((pair - other)[0])"))
    assert [event.kind for event in confirmed(linked, facts["a"])] == ["sync.number"]


def test_objects_of_another_library_may_give_anything() -> None:
    source = """
import torch
from graphs import Data

class M(torch.nn.Module):
    def forward(self, x: torch.Tensor, names):
        data = Data(x=x)
        return [names[part.item()] for part in data["kinds"]]
"""
    linked, facts = project(a=source)
    assert [event.kind for event in confirmed(linked, facts["a"])] == ["sync.item"]
