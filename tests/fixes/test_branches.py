"""Unsafe rewrites of branches, checks and draws: the break goes, ordinary inputs give the same."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.strategies import FEW, tensors
from tests.fixes.support import expect, marked, offer

Forward = Callable[..., object]


class Rewritten(NamedTuple):
    """Source before and after. Each ``forward`` takes a float tensor ``x`` and a number ``n``."""

    code: str
    before: str
    after: str
    notes: dict[str, str] = {}


HEAD = "import torch\n\n\ndef forward(x, n=1):\n"


def _case(code: str, before: str, after: str, head: str = HEAD, **notes: str) -> Rewritten:
    old, new = (textwrap.indent(textwrap.dedent(text).strip(), "    ") for text in (before, after))
    return Rewritten(code, f"{head}{old}\n", f"{head}{new}\n", notes)


CASES = {
    "else-less": _case(
        "PG301",
        """
        if n is not None and «x.sum() > 0»:
            x = x * 2
        return x
        """,
        """
        if n is not None:
            x = torch.where(x.sum() > 0, x * 2, x)
        return x
        """,
        tensors="x",
    ),
    "an-item": _case(
        "PG201",
        """
        if «x.max().item()» > 2:
            x = x * 2
        return x
        """,
        """
        x = torch.where(x.max() > 2, x * 2, x)
        return x
        """,
    ),
    "an-item-returned": _case(
        "PG201",
        """
        if 2 >= «x.max().item()»:
            return x * 2
        return x + 1
        """,
        """
        return torch.where(2 >= x.max(), x * 2, x + 1)
        """,
    ),
    "a-name": _case(
        "PG301",
        """
        total = x.sum()
        if «total > 0»:
            total = total * 2
        return total
        """,
        """
        total = x.sum()
        total = torch.where(total > 0, total * 2, total)
        return total
        """,
        tensors="total",
    ),
    "both-arms": _case(
        "PG301",
        """
        if «not (x.sum() > 0 and x.mean() < 9)»:
            y = x + 1
            z = x - 1
        else:
            y = x * 3
            z = -x
        return y, z
        """,
        """
        y = torch.where(
            torch.logical_not(torch.logical_and(x.sum() > 0, x.mean() < 9)), x + 1, x * 3
        )
        z = torch.where(
            torch.logical_not(torch.logical_and(x.sum() > 0, x.mean() < 9)), x - 1, -x
        )
        return y, z
        """,
    ),
    "returns": _case(
        "PG301",
        """
        if «x.sum()»:
            return x * n
        return torch.abs(x)
        """,
        """
        return torch.where((x.sum()) != 0, x * n, torch.abs(x))
        """,
    ),
    "full-mask": _case(
        "PG301",
        """
        mask = x != 77
        if (n is None) or (
            mask is not None and «torch.all(mask == 1)»
        ):
            mask = None
        return x if mask is None else x * mask
        """,
        """
        mask = x != 77
        if n is None:
            mask = None
        return x if mask is None else x * mask
        """,
    ),
    "only-a-full-mask": _case(
        "PG301",
        """
        mask = x == 77
        if «not mask.any()»:
            mask = None
        return x if mask is None else x.masked_fill(mask, 0)
        """,
        """
        mask = x == 77
        return x if mask is None else x.masked_fill(mask, 0)
        """,
    ),
    "raise": _case(
        "PG303",
        """
        if n is not None and «x.amax() >= 99»:
            raise ValueError("too large")
        return x + 1
        """,
        """
        if n is not None:
            torch._assert_async(~(x.amax() >= 99), "too large")
        return x + 1
        """,
    ),
    "raise-unless": _case(
        "PG303",
        """
        if «not (x < 99).all()»:
            raise ValueError("large")
        return x + 1
        """,
        """
        torch._assert_async((x < 99).all(), "large")
        return x + 1
        """,
    ),
    "raise-with-a-computed-message": _case(
        "PG303",
        """
        if n is None or «x.amax() >= 99»:
            raise ValueError(f"not {n}")
        return x + 1
        """,
        """
        if not torch.compiler.is_compiling() and (n is None or x.amax() >= 99):
            raise ValueError(f"not {n}")
        return x + 1
        """,
    ),
    "assert": _case(
        "PG201",
        """
        assert «x.amax().item()» <= 99 and x.amin() > -99, "out of range"
        return x + 1
        """,
        """
        assert (x.amax() <= 99) & (x.amin() > -99), "out of range"
        return x + 1
        """,
    ),
    "check": _case(
        "PG402",
        """
        check(
            «x[x > 99]».numel() == 0,
            f"{n}",
        )
        return x + 1
        """,
        """
        if not torch.compiler.is_compiling():
            check(
                x[x > 99].numel() == 0,
                f"{n}",
            )
        return x + 1
        """,
        head="import torch\n\n\ndef check(right, text):\n    assert right, text\n\n\n"
        "def forward(x, n=1):\n",
    ),
    "item": _case(
        "PG201",
        """
        scale = «x.amax().item()»
        return x.clone() * scale + torch.abs(x) / scale
        """,
        """
        scale = x.amax().detach()
        return x.clone() * scale + torch.abs(x) / scale
        """,
    ),
    "float": _case(
        "PG202",
        "return x.abs() * «float(x.amax())»",
        "return x.abs() * x.amax().detach()",
    ),
    "requires-grad": _case(
        "PG508",
        """
        y = x.detach()
        if n:
            «y.requires_grad = True»
        return x + y.detach()
        """,
        """
        y = x.detach()
        if not torch.compiler.is_compiling() and n:
            y.requires_grad = True
        return x + y.detach()
        """,
    ),
    "always-run": _case(
        "PG306",
        """
        torch.nn.functional.relu(x)
        for layer in (torch.sin, torch.cos):
            draw = torch.rand([])
            skip = n is not None and draw < (0.0 * n)
            if «not skip» or n == 7:
                # all in step
                out = (
                    layer(x),
                    None,
                )
                x = out[0]

            if skip:
                out = (None, None)
        return x, out[1]
        """,
        """
        torch.nn.functional.relu(x)
        for layer in (torch.sin, torch.cos):
            draw = torch.rand([])
            # all in step
            out = (
                layer(x),
                None,
            )
            if n is not None:
                x = torch.where((draw < (0.0 * n)).to(x.device), x, out[0])
            else:
                x = out[0]
        return x, out[1]
        """,
    ),
    "always-run-in-step": _case(
        "PG306",
        """
        torch.nn.functional.relu(x)

        # ask the others
        step = int(n or 0) == 7 or bool(n is None)

        for layer in (torch.sin, torch.cos):
            draw = torch.rand([])
            skip = n is not None and draw < (0.0 * n)
            if «not skip» or step:
                # all in step
                out = (
                    layer(x),
                    None,
                )
                x = out[0]

            if skip:
                out = (None, None)
        return x, out[1]
        """,
        """
        torch.nn.functional.relu(x)

        for layer in (torch.sin, torch.cos):
            draw = torch.rand([])
            # all in step
            out = (
                layer(x),
                None,
            )
            if n is not None:
                x = torch.where((draw < (0.0 * n)).to(x.device), x, out[0])
            else:
                x = out[0]
        return x, out[1]
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_code_becomes(name: str) -> None:
    case = CASES[name]
    expect(case.before, case.after, case.code, "unsafe", **case.notes)


@pytest.mark.parametrize("name", CASES)
def test_ordinary_inputs_give_the_same_without_a_break(name: str) -> None:
    case = CASES[name]
    old, new = module_of(marked(case.before)[0]).forward, module_of(case.after).forward
    for x in (torch.tensor([[1.0, -2.0], [3.0, 0.5]]), torch.full((2, 2), -1.0)):
        _assert_same_but_for_aliases(old, new, x)
        _assert_same_but_for_aliases(old, new, x.clone().requires_grad_())
    assert breaks(old, (x, 1)) > 0
    assert breaks(new, (x, 1)) == 0


def _assert_same_but_for_aliases(old: Forward, new: Forward, x: torch.Tensor) -> None:
    before, after = run(old, (x, 1)), run(new, (x, 1))
    before.aliases = after.aliases = []
    assert_same(before, after)


@pytest.mark.parametrize(
    ("old", "new"), [("return x, out[1]", "return x, step"), ("# all in step", "print(step)")]
)
def test_what_is_asked_elsewhere_stays(old: str, new: str) -> None:
    before = CASES["always-run-in-step"].before
    assert old in before
    _, changed = offer(before.replace(old, new), "PG306")
    assert "step = int(n or 0) == 7 or bool(n is None)" in changed


WHERE = ("else-less", "both-arms")


@pytest.mark.parametrize("name", WHERE)
@FEW
@given(data=st.data())
def test_selections_give_the_same_values_and_gradients(name: str, data: st.DataObject) -> None:
    """Where the arms have the same dtype and shape, only aliases may differ."""
    case = CASES[name]
    old, new = module_of(marked(case.before)[0]).forward, module_of(case.after).forward
    floating = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
    x = data.draw(tensors(floating))
    _assert_same_but_for_aliases(old, new, x)


WRITES = [
    ("x[x < 0] = 0", "x.masked_fill_(x < 0, 0)"),
    ("x[~(x == 1.0)] = -2.5", "x.masked_fill_(~(x == 1.0), -2.5)"),
    ("x[torch.isnan(x)] = True", "x.masked_fill_(torch.isnan(x), True)"),
    ("x[x.ge(1)] = float('-inf')", "x.masked_fill_(x.ge(1), float('-inf'))"),
    ("x[x.ge(1)] = -6.5e4", "x.masked_fill_(x.ge(1), -6.5e4)"),
]


@pytest.mark.parametrize(("before", "after"), WRITES)
@FEW
@given(data=st.data())
def test_masked_writes_are_safe(before: str, after: str, data: st.DataObject) -> None:
    place, _, number = before.partition(" = ")
    text = f"import torch\n\n\ndef forward(x):\n    «{place}» = {number}\n    return x\n"
    fixed = f"import torch\n\n\ndef forward(x):\n    {after}\n    return x\n"
    expect(text, fixed, "PG406", "safe")
    x = data.draw(tensors())
    old, new = module_of(marked(text)[0]).forward, module_of(fixed).forward
    assert_same(run(old, (x,)), run(new, (x,)))

    def doubled(function: Forward, x: torch.Tensor) -> object:
        return function(x * 2)

    assert_same(run(partial(doubled, old), (x,)), run(partial(doubled, new), (x,)))


@pytest.mark.parametrize("number", ["-1e9", "65505", "+float('1e5')", "-float('text')"])
def test_a_number_that_half_cannot_hold_is_unsafe_to_fill(number: str) -> None:
    text = f"def forward(x):\n    «x[x < 0]» = {number}\n    return x\n"
    fix, changed = offer(text, "PG406")
    assert fix is not None and fix.applicability == "unsafe"
    assert f"x.masked_fill_(x < 0, {number})" in changed


def test_a_mask_made_before_is_known() -> None:
    text = """
        import torch

        def forward(x, y):
            mask = x > 3
            «x[mask]» = 0
            y = y + 1
            low = y < 0
            y = y[0]
            «y[low]» = 0
            return x, y
        """
    after = (
        text.replace("«x[mask]» = 0", "x.masked_fill_(mask, 0)").replace("«", "").replace("»", "")
    )
    expect(text, after, "PG406", "safe")


def test_draws_come_from_torch() -> None:
    before = """
        import random

        import numpy as np
        import torch


        def forward(x, p):
            draw = «np.random.uniform(0, 1)»
            if draw < p:
                return x
            return x + 1 if «random.random()» < p else x + 2
        """
    after = """
        import random

        import numpy as np
        import torch


        def forward(x, p):
            draw = torch.rand([])
            if draw < p:
                return x
            return x + 1 if torch.rand([]) < p else x + 2
        """
    expect(before, after, "PG504", "unsafe")
    old, new = (
        module_of(marked(before)[0]).forward,
        module_of(textwrap.dedent(after).lstrip("\n")).forward,
    )
    for p in (0.0, 1.0):
        assert torch.equal(old(torch.ones(2), p), new(torch.ones(2), p))
