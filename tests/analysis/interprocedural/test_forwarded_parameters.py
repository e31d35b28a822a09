"""Parameters that are only passed on: they are what their takers show."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

TAKERS = """
    import torch
    def used(x, y):
        return torch.abs(x) + y
    def annotated(x: torch.Tensor, flag: bool):
        return x
    def further(x, y):
        return used(y=y, x=x)
    def round_about(x, n):
        return further(x, n) if n else round_about(x, n - 1)
    class Taker:
        def take(self, x):
            return x.unsqueeze(0)
"""
FRONT = """
    from pkg.takers import Taker, annotated, further, round_about, used
    def front(p, q):
        if p > 0:
            return p
        USE
"""


def branches(use: str, front: str = FRONT) -> int:
    """How often the function in front branches on a tensor."""
    linked, facts = project(
        RegionOptions(every=True), pkg__takers=TAKERS, pkg__front=front.replace("USE", use)
    )
    events = confirmed(linked, facts["pkg.front"])
    return sum(event.kind.startswith("branch") for event in events)


@pytest.mark.parametrize(
    "use",
    [
        "return annotated(p, True)",
        "return annotated(flag=True, x=p)",
        "return Taker().take(p)",
    ],
)
def test_is_a_tensor(use: str) -> None:
    assert branches(use) == 1


@pytest.mark.parametrize(
    "use",
    [
        "return used(q, p)",
        "return annotated(q, p)",
        "return annotated(p.part, True)",
        "return annotated(q, True) if isinstance(p, int) else annotated(p, True)",
        "return annotated([p], True)",
        "return annotated",
    ],
)
def test_may_be_something_else(use: str) -> None:
    assert branches(use) == 0


def test_what_callers_pass_comes_first() -> None:
    assert branches("return used(p, q)\n    def ask(x): return front(3, x.abs())") == 0
