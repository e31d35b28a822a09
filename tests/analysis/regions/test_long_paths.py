"""What is so far away from a module's forward that it is not believed to run in it."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import DEFAULT_REGIONS, RegionOptions
from tests.analysis.programs import confirmed, project

HEAD = "import torch\nfrom torch import nn\n"
MODEL = "class M(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return f1(x)\n"


def chain(length: int) -> str:
    """Functions that call each other, the last of which reads a value."""
    calls = "".join(f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(1, length))
    return f"{calls}def f{length}(x):\n    return x.sum().item()\n"


def seen(source: str, asked: RegionOptions = DEFAULT_REGIONS) -> list[str]:
    linked, facts = project(asked, m=HEAD + source)
    return [event.kind for event in confirmed(linked, facts["m"])]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (6, ["sync.item"]),
    ],
)
def test_a_long_chain_of_calls(length: int, expected: list[str]) -> None:
    assert seen(chain(length) + MODEL) == expected
    assert seen(chain(length) + MODEL, RegionOptions(every=True)) == ["sync.item"]
    assert seen(chain(length) + MODEL + "m = torch.compile(M())\n") == ["sync.item"]


def test_a_nearer_forward_counts() -> None:
    near = MODEL.replace("class M", "class N").replace("f1(", "f4(")
    assert seen(chain(9) + near + MODEL) == ["sync.item"]
    linked, facts = project(m=HEAD + chain(9) + MODEL + near)
    region = linked.region("m.f9")
    assert region is not None
    assert region.call_path[0] == "N.forward (forward of an nn.Module)"
    assert linked.region("m.f6") is not None


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (4, ["sync.item"]),
    ],
)
def test_a_call_that_may_lead_to_several_counts_twice(length: int, expected: list[str]) -> None:
    source = """
class Base(nn.Module):
    def part(self, x):
        return f1(x)
    def start(self, x):
        return self.part(x)
    def forward(self, x: torch.Tensor):
        return self.start(x)
class Other(Base):
    def part(self, x):
        return x
"""
    assert seen(chain(length - 1) + source) == expected


def test_what_makes_the_wrapper_runs_once() -> None:
    source = """
import functools
def named(name):
    def decorator(function):
        print(name)
        @functools.wraps(function)
        def inner(x):
            return function(x).item()
        return inner
    return decorator
@named("f")
def f1(x):
    return x
"""
    assert seen(source + MODEL) == ["sync.item"]
