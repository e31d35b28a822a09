"""Functions and objects that are passed as arguments: who calls the parameter calls them."""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, project

HEAD = "import torch\nfrom torch import nn\n"
PICK = "def pick(t):\n    if t > 0:\n        return t\n    return -t\n"
BRANCH = ["branch.if"]


def found(source: str) -> list[str]:
    """The kinds of the events of a one-file program, where every region is asked for."""
    linked, facts = project(RegionOptions((), True), m=HEAD + source)
    kinds = [event.kind for event in confirmed(linked, facts["m"])]
    return [kind for kind in kinds if not kind.startswith("effect.")]


@pytest.mark.parametrize(
    ("given", "kinds"), [("x.sum()", BRANCH), ("x.shape[0]", []), ("len(x)", []), ("2.0", [])]
)
def test_a_function_gets_what_the_parameter_is_called_with(given: str, kinds: list[str]) -> None:
    source = "def apply(f, t):\n    return f(t)\n"
    use = f"def use(x: torch.Tensor):\n    return apply(pick, {given})\n"
    assert found(PICK + source + use) == kinds


@pytest.mark.parametrize(
    ("first", "second", "kinds"), [("pick", "other", BRANCH), ("other", "pick", [])]
)
def test_a_function_passed_for_another_parameter(first: str, second: str, kinds: list[str]) -> None:
    source = "def other(t):\n    return t\n"
    source += "def apply(f, g, t):\n    return f(t), g(3)\n"
    use = f"def use(x: torch.Tensor):\n    return apply({first}, {second}, x.sum())\n"
    assert found(PICK + source + use) == kinds


def test_a_function_is_passed_on() -> None:
    source = "def inner(h, t):\n    return h(t)\ndef outer(f, t):\n    return inner(f, t)\n"
    use = "def use(x: torch.Tensor):\n    return outer(pick, x.sum())\n"
    assert found(PICK + source + use) == BRANCH
    again = source.replace("return h(t)", "return outer(h, t)")  # round in a circle
    assert found(PICK + again + use) == []


HOLDER = """
class Solver:
    def __init__(self, f):
        self.f = f
    def run(self, t):
        return self.f(t)
"""


def test_a_function_is_kept_as_an_attribute() -> None:
    use = "def use(x: torch.Tensor):\n    return Solver(pick).run(GIVEN)\n"
    assert found(PICK + HOLDER + use.replace("GIVEN", "x.sum()")) == BRANCH
    assert found(PICK + HOLDER + use.replace("GIVEN", "4")) == []


def test_a_function_is_passed_to_the_constructor_of_a_subclass() -> None:
    source = "class Quick(Solver):\n    pass\n"
    use = "def use(x: torch.Tensor):\n    return Quick(pick).run(x.sum())\n"
    assert found(PICK + HOLDER + source + use) == BRANCH
    passed_up = "class Quick(Solver):\n    def __init__(self, g):\n        super().__init__(g)\n"
    assert found(PICK + HOLDER + passed_up + use) == BRANCH


@pytest.mark.parametrize(("given", "kinds"), [("x", BRANCH * 2), ("[x]", BRANCH)])
def test_a_class_that_a_function_gives_is_made(given: str, kinds: list[str]) -> None:
    source = HOLDER.replace("        self.f = f\n", "        if f.sum() > 0:\n            f = 0\n")
    source += "def select(kind):\n    return Solver if kind else None\n"
    source += "def use(x: torch.Tensor, kind):\n    made = select(kind)\n"
    use = f"    return made({given}), pick(x)\n"
    assert found(PICK + source + use) == kinds


NOISE = """
class Noise:
    def __call__(self, t):
        return float(t)
"""


def test_an_object_is_passed_and_called() -> None:
    use = "def use(x: torch.Tensor):\n    noise = Noise()\n    return Solver(noise).run(x.sum())\n"
    assert found(NOISE + HOLDER + use) == ["sync.number"]


@pytest.mark.parametrize(
    ("body", "kinds"), [("raise TypeError", ["sync.number"]), ("return 1", [])]
)
def test_calling_an_object_of_an_abstract_class(body: str, kinds: list[str]) -> None:
    base = f"class Base:\n    def __call__(self, t):\n        {body}\n"
    noise = NOISE.replace("class Noise", "class Noise(Base)")
    use = "def use(x: torch.Tensor, noise: Base):\n    return noise(x.sum())\n"
    assert found(base + noise + use) == kinds


def test_a_parameter_with_a_type_of_another_file() -> None:
    kinds = "from typing import Callable\nimport torch\nStep = Callable[[float], torch.Tensor]\n"
    source = PICK + "def apply(f: Step, t):\n    return f(t)\n"
    source += "def use(x: torch.Tensor):\n    return apply(pick, x.sum())\n"
    head = HEAD + "from my_types import Step\n"
    linked, facts = project(RegionOptions((), True), my_types=kinds, m=head + source)
    assert [event.kind for event in confirmed(linked, facts["m"])] == BRANCH


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [
        ("torch.cartesian_prod(a, a)", ["sync.number"]),
        ("[[1, 2], [3, 4]]", []),
    ],
)
def test_a_list_indexed_by_what_a_function_gives(rows: str, kinds: list[str]) -> None:
    source = f"def pairs(a):\n    return {rows}\ndef use(x: torch.Tensor, held: list):\n"
    source += "    for i, j in pairs(x):\n        x = x + held[i]\n    return x\n"
    assert found(source) == kinds


def test_functions_that_are_passed_round_in_a_circle() -> None:
    source = "def same(f):\n    return f\nclass Kept:\n    def __init__(self, run):\n"
    source += "        self.run = run\n    def go(self, run):\n        return self.run(run)\n"
    use = "def use(x: torch.Tensor):\n    g = same(same)\n    kept = Kept(g)\n"
    use += "    kept.run(kept.go)\n    return g(g(pick))(x.sum()), Kept(kept.run).go(kept.go)\n"
    assert found(PICK + source + use) == []
    assert found(PICK + source + use.replace("g(g(pick))", "pick")) == BRANCH
