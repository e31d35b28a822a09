"""Modules made in a function that torch.compile gives up on, constructor by constructor."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import project

HEAD = """
import torch
from torch import nn

class Scale(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
    def forward(self, x):
        return x * self.k

class Half(Scale):
    def __init__(self):
        super().__init__(0.5)

class Plain:
    def __init__(self):
        super().__init__()

class Solver:
    def run(self, x: torch.Tensor):
        return x if x.sum() > 0 else -x

def positive(x: torch.Tensor):
    return x if x.sum() > 0 else -x

def use(x: torch.Tensor, n: int):
"""
LOOP = "for _ in range(n):\n    x = {}\n"


def made(body: str) -> list[str]:
    source = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    linked, facts = project(RegionOptions(every=True), m=source)
    return [name for name in facts["m"].functions if list(linked.made_untraced(name))]


@pytest.mark.parametrize(
    "body",
    [
        "m = Scale(2.0)\n" + LOOP.format("positive(x)") + "return m(x)",
        LOOP.format("x if x.sum() > 0 else -x") + "return Scale(2.0)(x)",
        "while n > 0:\n    n -= x.item()\nreturn Scale(2.0)(x)",
        "try:\n    n = x.item()\nexcept ValueError:\n    pass\nreturn Scale(n)(x)",
        "m = Scale(2.0)\nreturn m(Solver().run(x))",
    ],
)
def test_seen(body: str) -> None:
    assert made(body) == ["m.Scale.__init__"]


def test_constructors_of_bases_are_traced_alone_too() -> None:
    body = LOOP.format("positive(x)") + "return Half()(x)"
    assert made(body) == ["m.Scale.__init__", "m.Half.__init__"]


@pytest.mark.parametrize(
    "body",
    [
        # the graph goes on behind a break
        "m = Scale(2.0)\nreturn m(positive(x))",
        "m = Scale(2.0)\nwith torch.no_grad():\n    x = positive(x)\nreturn m(x)",
        # nothing breaks in the loop
        "m = Scale(2.0)\n" + LOOP.format("x + 1") + "return m(x)",
        LOOP.format("x + 1") + "return Scale(2.0)(positive(x))",
        # a warning, which most calls never come to
        "for _ in range(n):\n    if n > 3:\n        print(x)\nreturn Scale(2.0)(x)",
        # no module
        "p = Plain()\n" + LOOP.format("positive(x)") + "return x",
        # made by the caller
        LOOP.format("positive(x)") + "return x",
    ],
)
def test_not_seen(body: str) -> None:
    assert made(body) == []
