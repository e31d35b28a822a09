"""A function of masked rows, called with everything: run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, edited, expect, marked

HEAD = "import torch\nfrom torch.nn import functional as F\n\n\n"
SPLINE = """def spline(x, heights, *, bound, inverse=False, least=1e-3):
    \"\"\"Along the last dimension, for each number alone.\"\"\"
    count = heights.shape[-1]
    if least * count > 1.0:
        raise ValueError(f"{count} are too many")
    check_range(x.min() >= -bound)
    heights = least + (1 - least * count) * F.softmax(heights, dim=-1)
    ends = F.pad(torch.cumsum(heights, -1), pad=(1, 0), value=0.0)
    ends = 2 * bound * ends - bound
    ends[..., -1] = bound
    places = ends if inverse else ends + 0
    places[..., -1] += 1e-6
    index = torch.sum(x[..., None] >= places, dim=-1)[..., None] - 1
    low = ends.gather(-1, index)[..., 0]
    if not inverse:
        if not torch.compiler.is_compiling():
            check_range((x >= low).all())
        return (x - low).pow(2), low
    return torch.sqrt(x - low), -low


def check_range(fine):
    if not torch.compiler.is_compiling() and not fine:
        raise ValueError("out of range")


def forward(x, table, bound=2.0, inverse=False):
    inside = (x >= -bound) & (x <= bound)
    y = torch.zeros_like(x)
    low = torch.ones_like(x)
    CALL
    return y, low
"""
CALL = """«y[inside]», low[inside] = spline(
        x[inside], heights=table[inside, :], bound=bound, inverse=inverse
    )"""
AFTER = """new_y, new_low = spline(
        torch.where(inside, x, -bound), heights=table, bound=bound, inverse=inverse
    )
    y.copy_(torch.where(inside, new_y, y))
    low.copy_(torch.where(inside, new_low, low))"""
SQUARES = """def squares(x, scale=2.0):
    y = x.clamp(max=3).square() if scale > 1 else torch.exp(x)
    return (y - scale).abs()


def forward(x, scale: float = 2.0):
    few = x == 1
    few = x <= 3.0
    x = x * 1
    y = torch.zeros_like(x)
    y[few] = squares(«x[few]», scale)
    return y
"""
BEFORE = HEAD + SPLINE.replace("CALL", CALL)


def test_the_call_gets_everything() -> None:
    fix = expect(BEFORE, HEAD + SPLINE.replace("CALL", AFTER), "PG402", "unsafe")
    assert "all positions are computed" in fix.reason


VALUES = st.sampled_from([-7.0, -2.0, -1.5, 0.0, 0.25, 2.0, 2.5, float("inf"), float("nan")])


@FEW
@given(
    rows=st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=4),
    inverse=st.booleans(),
)
def test_they_compute_the_same(rows: list[list[float]], inverse: bool) -> None:
    old = module_of(marked(BEFORE)[0]).forward
    new = module_of(HEAD + SPLINE.replace("CALL", AFTER)).forward
    x = torch.tensor([[0.5, 0.5, 0.5], *rows], dtype=torch.float64, requires_grad=True)
    table = torch.randn(*x.shape, 5, dtype=torch.float64, requires_grad=not inverse)
    seen = run(old, (x, table, 2.0, inverse))
    assert seen.error is None
    assert_same(seen, run(new, (x, table, 2.0, inverse)))
    assert_same(seen, run(compiled(new), (x, table, 2.0, inverse)))


def test_no_break_is_left() -> None:
    old = module_of(marked(BEFORE)[0]).forward
    new = module_of(HEAD + SPLINE.replace("CALL", AFTER)).forward
    arguments = (torch.linspace(-3, 3, 12).view(3, 4), torch.randn(3, 4, 5))
    assert breaks(old, arguments) > 0
    assert breaks(new, arguments) == 0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("-1)[..., None] - 1", "0)[..., None] - 1", "may not treat each row alone"),
        ("dim=-1)\n    ends", "dim=0)\n    ends", "may not treat each row alone"),
        ("pad=(1, 0)", "pad=(1, 0, 0, 0)", "may not treat each row alone"),
        ("shape[-1]", "shape[0]", "may be a size of the leading dimensions"),
        ("shape[-1]", "shape[-2]", "may be a size of the leading dimensions"),
        ("heights.shape[-1]", "len(heights)", "is not followed"),
        ("(x - low).pow(2), low", "(x - x.mean()).pow(2), low", "may not treat each row alone"),
        ("(x - low).pow(2), low", "(x - ends).pow(2), low", "joins tensors of other dimensions"),
        ("(x - low).pow(2), low", "(x @ low).pow(2), low", "is not followed"),
        ("(x - low).pow(2), low", "x[0] - low, low", "indexes the leading dimensions"),
        ("(x - low).pow(2), low", "x[..., 0] - low, low", "indexes the leading dimensions"),
        ("(x - low).pow(2), low", "x.view(-1) - low, low", "may not treat each row alone"),
        ("(x - low).pow(2), low", "other(x) - low, low", "is not followed"),
        ("(x - low).pow(2), low", "low", "does not give one number for each row"),
        ("(x - low).pow(2), low", "ends, low", "does not give one number for each row"),
        ("return torch.sqrt(x - low), -low", "low = -low", "may give nothing back"),
        ("if not inverse:", "if (x > 0).all():", "may not treat each row alone"),
        ("if not inverse:", "if not inverse and x is not None:", "may differ from place to place"),
        ("check_range(x.min() >= -bound)", "print(x.min() >= -bound)", "does more than compute"),
        ("check_range(x.min() >= -bound)", "x += 1", "may be what was passed"),
        ("check_range(x.min() >= -bound)", "spline.seen = x", "is written to"),
        ("    index = ", "    for index in x:\n        pass\n    index = ", "does more than comp"),
        ("ends + 0\n", "heights[..., :1]\n", "may be what was passed"),
        ("(x >= -bound) & (x <= bound)", "(x > -bound) & (x <= bound)", "no number is seen"),
        ("(x >= -bound) & (x <= bound)", "(x >= -bound) & table[..., 0].bool()", "the shape of"),
        ("y = torch.zeros_like(x)", "y = torch.zeros(3, 3)", "the shape of"),
        ("    inside =", "    spline = F.relu\n    inside =", "bound to something else"),
        ("def spline(", "@torch.jit.script\ndef spline(", "not a plain function"),
        ("spline(\n", "other(\n", "not one function"),
        ("bound=bound, inverse", "**dict(bound=bound), inverse", "not seen what is passed"),
    ],
)
def test_other_functions_stay(old: str, new: str, reason: str) -> None:
    decline(edited(BEFORE, old, new), "PG402", reason)


def test_a_bound_that_is_set_twice_stays() -> None:
    decline(HEAD + SQUARES, "PG402", "set more than once")


def test_elementwise_functions() -> None:
    text = SQUARES.replace("    few = x == 1\n", "").replace("    x = x * 1\n", "")
    expect(
        HEAD + text,
        HEAD
        + text.replace(
            "y[few] = squares(«x[few]», scale)",
            "new_y = squares(torch.where(few, x, 3.0), scale)\n"
            "    y.copy_(torch.where(few, new_y, y))",
        ),
        "PG402",
        "unsafe",
    )
