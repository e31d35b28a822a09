"""Rewrites that select or reduce where indexing counted, branched or read back."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import Seen, assert_same, breaks, module_of, run
from tests.fixes.strategies import DTYPES, FEW, tensors
from tests.fixes.support import decline, expect, marked

Forward = Callable[..., object]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


class Rewritten(NamedTuple):
    """Source before and after, whose ``forward`` takes a tensor ``x`` and a number ``n``.

    ``exact`` is False where rounding may differ.
    """

    code: str
    before: str
    after: str
    dtypes: list[torch.dtype]
    exact: bool = True
    breaks: bool = True


def _case(
    code: str,
    before: str,
    after: str,
    dtypes: list[torch.dtype] | None = None,
    *,
    exact: bool = True,
    breaks: bool = True,
    head: str = "import torch\n\n\ndef forward(x, n=1.0):\n",
) -> Rewritten:
    old, new = (textwrap.indent(textwrap.dedent(text).strip(), "    ") for text in (before, after))
    return Rewritten(code, f"{head}{old}\n", f"{head}{new}\n", dtypes or DTYPES, exact, breaks)


MATH = "import math\n\nimport torch\n\n\ndef forward(x: torch.Tensor, n=1.0):\n"
CASES = {
    "copy-of-the-compared": _case(
        "PG406",
        """
        x = x + 0
        inside = (x >= -n) & (x <= 2)
        outside = ~inside
        y = torch.zeros_like(x)
        «y[outside]» = x[outside]
        return x, y
        """,
        """
        x = x + 0
        inside = (x >= -n) & (x <= 2)
        outside = ~inside
        y = torch.zeros_like(x)
        y.copy_(torch.where(outside, x, y))
        return x, y
        """,
    ),
    "copy-into-the-compared": _case(
        "PG402",
        """
        y = x * 2
        x[x > 0] = «y[x > 0]»
        return x
        """,
        """
        y = x * 2
        x.copy_(torch.where(x > 0, y, x))
        return x
        """,
        FLOATS,
    ),
    "copy-of-known-rank": _case(
        "PG406",
        """
        y = torch.full(size=(1, x.numel()), fill_value=7, dtype=x.dtype)
        z = x.reshape(1, -1)
        «y[(x > 0).view(1, -1)]» = z[(x > 0).view(1, -1)]
        return y
        """,
        """
        y = torch.full(size=(1, x.numel()), fill_value=7, dtype=x.dtype)
        z = x.reshape(1, -1)
        y.copy_(torch.where((x > 0).view(1, -1), z, y))
        return y
        """,
    ),
    "sum": _case(
        "PG402",
        """
        mask = x > 0
        return «x[mask]».sum() * 2
        """,
        """
        mask = x > 0
        return torch.where(mask, x, 0).sum() * 2
        """,
        exact=False,
    ),
    "mean": _case(
        "PG402",
        """
        mask = ~(x != 3)
        return «x[mask]».mean()
        """,
        """
        mask = ~(x != 3)
        return (torch.where(mask, x, 0).sum(dtype=torch.float64) / mask.sum()).to(x.dtype)
        """,
        FLOATS,
        exact=False,
    ),
    "chain": _case(
        "PG301",
        """
        y = x * 1
        if «x.sum() > 0» and x.mean() < 9:
            y = x * 3
            x = x - 1
        # the other ones
        elif n == 1:
            y = x * 2
            x = x + 1
        else:
            y = x / 1
            x = -x
        return x, y
        """,
        """
        y = x * 1
        chosen = torch.logical_and(x.sum() > 0, x.mean() < 9)
        # the other ones
        if n == 1:
            y = torch.where(chosen, x * 3, x * 2)
            x = torch.where(chosen, x - 1, x + 1)
        else:
            y = torch.where(chosen, x * 3, x / 1)
            x = torch.where(chosen, x - 1, -x)
        return x, y
        """,
        FLOATS,
    ),
    "square-root": _case(
        "PG206",
        """
        return x / «math.sqrt(x.square().sum())»
        """,
        """
        return x / torch.sqrt(x.square().sum()).detach()
        """,
        [torch.float32],
        exact=False,
        head=MATH,
    ),
    "larger-one": _case(
        "PG206",
        """
        bound = «max(x.amax(), -x.amin())»
        return x / bound
        """,
        """
        bound = torch.maximum(x.amax(), -x.amin())
        return x / bound
        """,
        [torch.float32, torch.float64],
        exact=False,
        breaks=False,
        head=MATH,
    ),
}


def _pair(name: str) -> tuple[Forward, Forward]:
    case = CASES[name]
    return module_of(marked(case.before)[0]).forward, module_of(case.after).forward


@pytest.mark.parametrize("name", CASES)
def test_the_code_becomes(name: str) -> None:
    case = CASES[name]
    expect(case.before, case.after, case.code, "unsafe")


@pytest.mark.parametrize("name", CASES)
def test_the_break_goes_and_compiled_code_gives_the_same(name: str) -> None:
    old, new = _pair(name)
    x = torch.tensor([[1.0, -2.0], [3.0, 0.5]])
    for n in (1.0, 2.0):
        assert (breaks(old, (x, n)) > 0) == CASES[name].breaks
        assert breaks(new, (x, n)) == 0
        torch._dynamo.reset()
        _assert_close(run(new, (x, n)), run(torch.compile(new, backend="eager"), (x, n)))


@pytest.mark.parametrize("name", CASES)
@FEW
@given(data=st.data())
def test_values_and_gradients_are_the_same(name: str, data: st.DataObject) -> None:
    """Whatever is drawn: nan, inf, empty, any rank. Where before raised, after may do better."""
    case = CASES[name]
    old, new = _pair(name)
    x = data.draw(tensors(case.dtypes))
    if not case.exact:  # the sum of some is compared with the sum of all: no nan from inf - inf
        x = x.nan_to_num(1.0, 4.0, -4.0).clamp(-100, 100).detach().requires_grad_(x.requires_grad)
    n = data.draw(st.sampled_from([1.0, 2.0]))
    before, after = run(old, (x, n)), run(new, (x, n))
    if before.error is not None:
        return
    before.aliases = after.aliases = []
    if case.exact:
        assert_same(before, after)
    else:
        _assert_close(before, after)


def _assert_close(before: Seen, after: Seen) -> None:
    assert after.error is before.error
    for old, new in zip(
        [*before.outputs, *before.gradients], [*after.outputs, *after.gradients], strict=True
    ):
        if old is not None or new is not None:
            torch.testing.assert_close(new, old, rtol=2e-2, atol=1e-2, equal_nan=True)


OTHER_MASKS = [
    ("y = torch.zeros_like(x)\n    «y[m]» = x[m]", "all of the tensor's dimensions"),
    (
        "y = torch.zeros(2, 2)\n    «y[m.view(-1)]» = x[m.view(-1)]",
        "all of the tensor's dimensions",
    ),
    ("y = torch.zeros(*m)\n    «y[x > 0]» = x[x > 0]", "all of the tensor's dimensions"),
    ("y = x * 2\n    «y[x > m]» = x[x > m]", "all of the tensor's dimensions"),
    ("y = x * 2\n    «y[x > 0]» = x[x < 0]", "different masks"),
    ("y = z = x * 2\n    «y[x > 0]» = x", "not a number"),
]


@pytest.mark.parametrize(("body", "reason"), OTHER_MASKS)
def test_other_masks_stay(body: str, reason: str) -> None:
    text = f"import torch\n\ndef forward(x, m):\n    {body}\n    return y\n"
    decline(text, "PG402" if "number" not in reason else "PG406", reason)


OTHER_REDUCTIONS = [
    "«x[x > 0]».sum(0)",
    "«x[m]».sum()",
    "«x[x > 0]».amax()",
    "«x[x > 0]».mean(dtype=m)",
]


@pytest.mark.parametrize("body", OTHER_REDUCTIONS)
def test_other_reductions_stay(body: str) -> None:
    decline(f"import torch\n\ndef forward(x, m):\n    return {body}\n", "PG402", "")


OTHER_MATH = [
    "return x * 2, «math.sqrt(x.sum())»",
    "return x * «math.gamma(x.sum())»",
    "return x * «math.sqrt(n)»",
    "return x * «max(x.sum(), 1)»",
    "return x * «max(x.sum(), x.mean(), x.amax())»",
    "return x * «max([x.sum(), x.mean()])»",
    "max = min\n    return x * «max(x.sum(), x.mean())»",
]


@pytest.mark.parametrize("body", OTHER_MATH)
def test_other_arithmetic_stays(body: str) -> None:
    decline(f"import math\n\nimport torch\n\ndef f(x: torch.Tensor, n):\n    {body}\n", "PG206", "")


def test_attributes_are_selected_too() -> None:
    before = """
        import torch
        from torch import nn


        class Range(nn.Module):
            def __init__(self, momentum):
                super().__init__()
                self.momentum = momentum
                self.register_buffer("low", torch.zeros(1))

            def forward(self, x):
                low = x.min()
                if «self.low.min() > -1e-5»:
                    self.low = self.low + low
                elif self.momentum == -1:
                    self.low = torch.min(self.low, low)
                else:
                    self.low = self.low * self.momentum + low * (1 - self.momentum)
                return self.low * x
        """
    after = before.split("                if «")[0] + (
        """\
                chosen = self.low.min() > -1e-5
                if self.momentum == -1:
                    self.low = torch.where(chosen, self.low + low, torch.min(self.low, low))
                else:
                    self.low = torch.where(
                        chosen,
                        self.low + low,
                        self.low * self.momentum + low * (1 - self.momentum),
                    )
                return self.low * x
        """
    )
    expect(before, after, "PG301", "unsafe")
    old = module_of(textwrap.dedent(marked(before)[0])).Range
    new = module_of(textwrap.dedent(after)).Range
    for momentum in (-1, 0.25):
        one, other = old(momentum), new(momentum)
        for x in (torch.tensor([1.0, -2.0]), torch.tensor([3.0, -5.0])):
            assert torch.equal(one(x), other(x))
        assert torch.equal(one.low, other.low)
        assert breaks(new(momentum), (x,)) == 0


SKIPS = {
    "continue": (
        """
                if self.training:
                    draw = torch.rand([])
                    if «draw < self.p»:  # dropped
                        continue

                x = layer(
                    x,
                )
        """,
        """
                if self.training:
                    draw = torch.rand([])
                output = layer(
                    x,
                )
                # dropped
                if self.training and self.p > 0:
                    x = torch.where((draw < self.p).to(x.device), x, output)
                else:
                    x = output
        """,
    ),
    "else": (
        """
                draw = torch.rand([])
                if (self.training or self.p == 7) and «(draw < self.p)»:
                    continue
                else:
                    x = layer(x)
        """,
        """
                draw = torch.rand([])
                output = layer(x)
                if (self.training or self.p == 7) and self.p > 0:
                    x = torch.where((draw < self.p).to(x.device), x, output)
                else:
                    x = output
        """,
    ),
    "flag": (
        """
                drop = False
                if self.training or self.p == 7:
                    draw = torch.rand([])
                    if self.p is not None and «draw < self.p»:
                        drop = True

                if not drop:
                    x = layer(x)
        """,
        """
                if self.training or self.p == 7:
                    draw = torch.rand([])
                output = layer(x)
                if (self.training or self.p == 7) and self.p is not None and self.p > 0:
                    x = torch.where((draw < self.p).to(x.device), x, output)
                else:
                    x = output
        """,
    ),
}
MODEL = """
        import torch
        from torch import nn


        class Model(nn.Module):
            def __init__(self, p):
                super().__init__()
                torch.manual_seed(0)
                self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
                self.p = p

            def forward(self, x: torch.Tensor):
                for layer in self.layers:
{body}
                return x
"""


def _model(body: str) -> str:
    lines = textwrap.dedent(body).strip("\n")
    return textwrap.dedent(MODEL.replace("{body}", textwrap.indent(lines, " " * 20)))


@pytest.mark.parametrize("name", SKIPS)
def test_a_layer_jumped_over_is_run_and_not_taken(name: str) -> None:
    before, after = (_model(body) for body in SKIPS[name])
    expect(before, after, "PG306", "unsafe")
    old, new = module_of(marked(before)[0]).Model, module_of(after).Model
    x = torch.tensor([[1.0, -2.0, 0.5]])
    for p in (0.0, 0.5, 1.0):
        for training in (True, False):
            one, other = old(p).train(training), new(p).train(training)
            for seed in range(4):
                torch.manual_seed(seed)
                expected = one(x)
                torch.manual_seed(seed)
                assert torch.equal(expected, other(x))
    assert breaks(old(0.5).train(), (x,)) > 0
    assert breaks(new(0.5).train(), (x,)) == 0
