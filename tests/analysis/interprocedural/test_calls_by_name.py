"""Calls that only names lead to: tables of classes, methods of unknown objects, named tuples; and
the functions that are regions where every region is asked for.
"""

from __future__ import annotations

import pytest

from pygraph_lint.analysis.regions.compiled import RegionOptions
from tests.analysis.programs import confirmed, kinds, project

HEAD = "import collections\nimport torch\nfrom torch import nn\n"


def found(source: str) -> list[str]:
    """The kinds of the events of a one-file program, where every region is asked for."""
    linked, facts = project(RegionOptions((), True), m=HEAD + source)
    return [event.kind for event in confirmed(linked, facts["m"])]


SOLVER = (
    "class Solver:\n    def __init__(self, y):\n        self.y = y\n"
    "    def integrate(self, t):\n        if t > 0:\n            return t\n        return self.y\n"
)


def test_objects_of_a_table_of_classes() -> None:
    source = SOLVER + (
        "SOLVERS = {'one': Solver}\n"
        "def solve(y: torch.Tensor, how):\n    solver = SOLVERS[how](y=y)\n"
        "    return solver.integrate(y.sum()).tolist()\n"
    )
    assert found(source) == ["branch.if", "effect.made-object", "sync.tolist"]


def test_a_method_of_an_unknown_object_is_found_by_its_name() -> None:
    source = SOLVER + (
        "def solve(y: torch.Tensor, solver):\n    if solver.integrate(y) > 0:\n        return y\n"
    )
    assert found(source) == ["branch.if", "branch.if"]


def test_a_method_of_many_unrelated_classes_says_nothing() -> None:
    others = "".join(
        f"class C{index}:\n    def integrate(self, t):\n        return 1\n" for index in range(3)
    )
    source = SOLVER + others + "def solve(y: torch.Tensor, s):\n    return s.integrate(y)\n"
    assert found(source) == []


def test_a_method_whose_parameters_do_not_fit_is_another_one() -> None:
    source = SOLVER + "def solve(y: torch.Tensor, s):\n    return s.integrate(y, 1, 2)\n"
    assert found(source) == []


@pytest.mark.parametrize(
    ("parameters", "call", "seen"),
    [
        ("block, size", "fill(1, 2)", True),
        ("block, size", "fill(1, size=2)", True),
        ("block, size", "fill(*x)", True),
        ("block, size", "fill(**x)", True),
        ("block, size=3", "fill(1)", True),
        ("block, *, size", "fill(1, size=2)", True),
        ("block, size", "fill()", False),
        ("block, size", "fill(1)", False),
        ("block, *, size", "fill(1)", False),
    ],
)
@pytest.mark.parametrize("decorator", ["", "@filled"])
def test_a_method_of_which_a_call_leaves_parameters_open_is_another_one(
    parameters: str, call: str, seen: bool, decorator: str
) -> None:
    source = f"""
        import torch
        def filled(f):
            return f
        class Table:
            {decorator or "# plain"}
            def fill(self, {parameters}):
                return torch.ones(3).sum().item()
        class M(torch.nn.Module):
            def forward(self, x: torch.Tensor, made):
                return made.{call}
    """
    assert ("sync.item" in kinds(source)) is (seen or bool(decorator))


def test_named_tuples_keep_what_they_hold() -> None:
    source = (
        "Point = collections.namedtuple('Point', 'value count')\n"
        "def point(x: torch.Tensor):\n    return Point(value=x.sum(), count=3)\n"
        "def use(x: torch.Tensor):\n    p = point(x)\n    value, count = p\n"
        "    if p.count > 1 and count > 1:\n        x = x + 1\n"
        "    if value > 0:\n        x = x + 1\n    return float(p.value)\n"
    )
    assert found(source) == ["branch.if", "sync.number"]


def test_functions_that_compute_with_tensors_of_their_object() -> None:
    source = (
        "class Radius:\n    def __init__(self, x: torch.Tensor):\n        self.norm = x.norm()\n"
        "    def step(self, radius):\n        if torch.sqrt(self.norm) > radius:\n"
        "            return 1\n        return 2\n"
        "    def reset_parameters(self):\n        if torch.sqrt(self.norm) > 0:\n"
        "            return 1\n"
    )
    assert found(source) == ["branch.if"]  # of step


def test_functions_that_only_make_tensors_are_no_regions() -> None:
    source = "def table(n):\n    x = torch.zeros(n)\n    if x.sum() > 0:\n        return x\n"
    assert found(source) == []


def test_one_tensor_of_several_operands_is_enough() -> None:
    source = (
        "def ratio(a, b, c):\n    r = a / b if c else a\n    if r > c:\n        return 1\n"
        "def use(x: torch.Tensor):\n    return ratio(1.0, x, 2)\n"
    )
    assert found(source) == ["branch.if"]
    assert found(source.replace("1.0, x", "1.0, 2.0")) == []


def test_a_number_by_default_may_be_a_tensor_that_a_caller_passes() -> None:
    source = (
        "def step(x: torch.Tensor, t=0.0):\n    if t > 0:\n        x = x + 1\n    return x\n"
        "def use(x: torch.Tensor):\n    return step(x, t=x.sum())\n"
    )
    assert found(source) == ["branch.if"]
    assert found(source.replace("x.sum()", "2.0")) == []


def test_what_a_function_that_was_passed_gives_is_used_as_a_tensor() -> None:
    source = (
        "def first(x: torch.Tensor, norm):\n    size = norm(x / 2).abs()\n"
        "    if size < 1:\n        return x\n"
    )
    assert found(source) == ["branch.if"]
    assert found(source.replace(".abs()", ".to_dict()")) == []


def test_functions_inside_of_a_region() -> None:
    source = (
        "def make(x: torch.Tensor):\n    def grid(t):\n"
        "        return torch.ceil(t[0] / 2).item()\n    return grid\n"
    )
    assert found(source) == ["sync.item"]


def test_each_branch_on_a_tensor_ends_the_graph() -> None:
    source = (
        "def f(x: torch.Tensor):\n    big = x.sum() > 0\n    if big:\n        x = x + 1\n"
        "    if big:\n        x = x + 2\n    return x\n"
    )
    assert found(source) == ["branch.if", "branch.if"]


def test_what_an_autograd_function_is_applied_to_comes_behind_its_context() -> None:
    source = (
        "class F(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(ctx, x, count, y):\n        if count > 1:\n            x = x + 1\n"
        "        if y > 1:\n            x = x + 1\n        return x\n"
        "def f(x: torch.Tensor):\n    return F.apply(x, 3, x.sum())\n"
    )
    assert found(source) == ["branch.if"]


def test_a_method_of_its_own_fills_an_autograd_functions_context() -> None:
    source = (
        "class F(torch.autograd.Function):\n    @staticmethod\n"
        "    def forward(x, flag):\n        if flag:\n            x = x + 1\n        return x\n"
        "    @staticmethod\n    def setup_context(ctx, inputs, output):\n        pass\n"
        "def f(x: torch.Tensor):\n    return F.apply(x, FLAG)\n"
    )
    assert found(source.replace("FLAG", "True")) == []
    assert found(source.replace("FLAG", "x.sum()")) == ["branch.if"]


def test_what_scales_a_loss_is_no_object_of_the_project() -> None:
    source = (
        "class Mesh:\n    def scale(self, t):\n        return t.sum().item()\n"
        "def step(loss: torch.Tensor, scaler):\n    scaler.scale(loss)\n    return loss\n"
    )
    assert "sync.item" in found(source)  # of the class itself
    linked, facts = project(m=HEAD + source + "step = torch.compile(step)\n")
    assert confirmed(linked, facts["m"]) == []
