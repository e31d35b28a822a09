"""What calls a function that is left out of compiled code is left out with it, where that pays."""

from __future__ import annotations

import pytest
import torch

from pygraph_lint.analysis.domain.region import Region
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import marked, offer

NESTED = """
import functools

import torch
from torch import nn

torch.manual_seed(0)


def logged(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args)

    return call


def taken(x: torch.Tensor):
    return x[«x > 0.5»].norm()


class Inner(nn.Module):
    def forward(self, x):
        return taken(x)


class Middle(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.last = nn.Linear(2, 2)

    def given(self, x):
        return x + self.inner(x)

    def forward(self, x):
        return self.last(self.given(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = Middle()

    def forward(self, x):
        return self.middle(x.sin()).cos()
"""
STEPS = (
    "Model.forward (forward of an nn.Module)",
    "line 50 calls Middle.forward",
    "line 41 calls Middle.given",
    "line 38 calls Inner.forward",
    "line 26 calls taken",
)
INPUT = (torch.tensor([[0.3, 1.0], [2.0, 0.1]]),)


def _left_out(old: str = "", new: str = "") -> tuple[str, str]:
    """The program with a part of it changed, and as it is fixed."""
    assert old in NESTED
    text = NESTED.replace(old, new, 1) if old else NESTED
    fix, after = offer(text, "PG402", region=Region("taken", STEPS))
    assert fix is not None
    assert (fix.rewrite, fix.applicability) == ("breaking_function", "unsafe")
    return marked(text)[0], after


@pytest.mark.parametrize(
    ("old", "new", "left"),
    [
        ("", "", 1),
        # The decorator's own function is where the graph ends, too.
        ("    def given", "    @logged\n    def given", 2),
        ("self.inner = Inner()", "self.inner = Inner.made()", 1),
        ("return x + self.inner(x)", "for _ in range(2):\n            x = x + self.inner(x)\n"
         "        return x.sin().cos().tan().exp().sin().cos().tan().exp().sin()", 1),
    ],
)  # fmt: skip
def test_layers_and_helpers_around_it_go_with_it(old: str, new: str, left: int) -> None:
    text, after = _left_out(old, new)
    text, after = (
        each.replace("class Inner(nn.Module):", "class Inner(nn.Module):\n    @classmethod\n"
                     "    def made(cls):\n        return cls()\n")
        for each in (text, after)
    )  # fmt: skip
    assert after.count("@torch.compiler.disable(recursive=False)") == 4
    models = [module_of(each).Model() for each in (text, after)]
    models[1].load_state_dict(models[0].state_dict())
    assert_same(run(models[0], INPUT), run(models[1], INPUT))
    assert breaks(models[0], INPUT) >= 5 > breaks(models[1], INPUT) == left


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        # An arm that may not be taken, work, another class, a generator, a compiler.
        ("return x + self.inner(x)", "return x + self.inner(x) if len(x) > 9 else x", 2),
        ("x + self.inner(x)", "x.sin().cos().tan().exp().sin().cos().tan().exp() + self.inner(x)",
         2),
        ("self.inner = Inner()", "self.inner = (Inner or Middle)()", 2),
        ("return x + self.inner(x)", "yield x + self.inner(x)", 2),
        ("    def given", "    @torch.jit.ignore\n    def given", 2),
        ("return x + self.inner(x)", "if self.training:\n            x = self.inner(x)\n"
         "        return x", 2),
        ("return self.last(", "for _ in range(9):\n            x = x * 2\n        return self.last("
         "", 3),
        # Layers of torch's own are not compiled where such code calls them.
        ("self.last = nn.Linear(2, 2)", "self.last = nn.Sequential("
         + ", ".join(["nn.Linear(2, 2)", "nn.GELU()"] * 5) + ")", 3),
        ("self.last = nn.Linear(2, 2)", "self.last = nn.Sequential(*[nn.Linear(2, 2)])", 3),
        ("self.last = nn.Linear(2, 2)", "self.last = nn.TransformerEncoderLayer(2, 1)", 3),
        ("self.last = nn.Linear(2, 2)", "self.last = nn.Sequential(Inner(), nn.GELU())", 4),
        # Of what nobody calls, as far as known, the graph begins there.
        ("return self.middle(x.sin())", "return self.other(x.sin())", 4),
    ],
)  # fmt: skip
def test_others_stay(old: str, new: str, count: int) -> None:
    text, after = _left_out(old, new)
    assert after.count("@torch.compiler.disable(recursive=False)") == count
    compile(after, "after", "exec")


def test_where_the_function_computes_much_only_its_callers_go() -> None:
    text, after = _left_out(
        "return x[«x > 0.5»].norm()",
        "x = torch.linalg.inv(x @ x.t() @ x @ x.t() + x.sin() + x.cos() + x.tan() + x.exp())\n"
        "    return x[«x > 0.5»].norm()",
    )
    assert after.count("@torch.compiler.disable(recursive=False)") == 3
    assert "disable(recursive=False)\ndef taken" not in after
    old, new = (module_of(each).Model() for each in (text, after))
    new.load_state_dict(old.state_dict())
    assert_same(run(old, INPUT), run(new, INPUT))
    assert breaks(old, INPUT) > breaks(new, INPUT) == 2


def test_a_layer_that_runs_layers_in_a_loop_stays_compiled() -> None:
    layers = "super().__init__()\n        self.rows = nn.ModuleList(nn.ReLU() for _ in range(3))"
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Inner(nn.Module):\n    def __init__(self):\n"
        f"        {layers}\n\n    def forward(self, x: torch.Tensor):\n"
        "        x = x[«x > 0.5»]\n        for row in self.rows:\n            x = row(x)\n"
        "        return x\n\n\nclass Outer(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.inner = Inner()\n\n"
        "    def given(self, x):\n        return self.inner(x), x\n\n"
        "    def forward(self, x):\n        return self.given(x.sin())[0].cos()\n"
    )
    fix, after = offer(text, "PG402")
    assert fix is not None and (fix.rewrite, fix.remains) == ("breaking_function", True)
    assert after.count("@torch.compiler.disable(recursive=False)\n    def given") == 1
    assert after.count("@torch.compiler.disable") == 1
    old, new = (module_of(each).Outer() for each in (marked(text)[0], after))
    assert_same(run(old, INPUT), run(new, INPUT))
    assert breaks(old, INPUT) > breaks(new, INPUT)


DOCUMENTED = """
import functools

import torch
from torch import nn

from somewhere import documented


def plain(function):
    return function


class Prepared:
DECORATED    def prepare(self, x: torch.Tensor):
        return x[«x > 0.5»].norm()

    def called(self, x):
        return self.prepare(x) + 1
METHODS
"""


@pytest.mark.parametrize(
    ("decorator", "methods", "left_out"),
    [
        ("", "", True),
        ("@plain", "", True),
        ("@torch.no_grad()", "", True),
        ("@functools.lru_cache", "", True),
        ("@documented", "", False),
        ("@documented(intro='Prepare.')", "", False),
        ("@plain\n    @documented", "", False),
        ("@documented", "    def forward(self, x):\n        return self.prepare(x)", True),
        ("@torch.jit.ignore", "    def forward(self, x):\n        return self.prepare(x)", False),
    ],
)
def test_a_decorator_of_another_file_may_look_into_a_function(
    decorator: str, methods: str, left_out: bool
) -> None:
    text = DOCUMENTED.replace("DECORATED", f"    {decorator}\n" if decorator else "")
    _, after = offer(text.replace("METHODS", methods), "PG402")
    assert ("@torch.compiler.disable(recursive=False)\n    def prepare" in after) is left_out
