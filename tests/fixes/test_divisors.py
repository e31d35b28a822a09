"""Common multiples and divisors: worked out by Python, run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked

BEFORE = """
    import numpy as np
    import torch


    def multiple(one, other):
        return «np.lcm(one, other)»


    def forward(x, one, other):
        size = multiple(one, other)
        if x.shape[0] > size:
            x = x[: size * 2]
        return x * size
    """
AFTER = """
    import math

    import numpy as np
    import torch


    def multiple(one, other):
        return math.lcm(one, other)


    def forward(x, one, other):
        size = multiple(one, other)
        if x.shape[0] > size:
            x = x[: size * 2]
        return x * size
    """


@pytest.mark.parametrize("name", ["lcm", "gcd"])
def test_python_works_it_out(name: str) -> None:
    before, after = BEFORE.replace("lcm", name), AFTER.replace("lcm", name)
    expect(before, after, "PG520", "unsafe")


@pytest.mark.parametrize("name", ["lcm", "gcd"])
@FEW
@given(one=st.integers(-5, 5), other=st.integers(-5, 5), rows=st.integers(0, 9))
def test_they_compute_the_same(name: str, one: int, other: int, rows: int) -> None:
    old = module_of(marked(BEFORE)[0].replace("lcm", name)).forward
    new = module_of(_program(AFTER).replace("lcm", name)).forward
    x = torch.ones(rows, requires_grad=True)
    seen = run(old, (x, one, other))
    assert seen.error is None
    assert_same(seen, run(new, (x, one, other)))
    assert_same(seen, run(compiled(new), (x, one, other)))


def test_no_break_is_left() -> None:
    arguments = (torch.ones(9), 2, 3)
    assert breaks(module_of(marked(BEFORE)[0]).forward, arguments) > 0
    assert breaks(module_of(_program(AFTER)).forward, arguments) == 0


def _program(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.split("\n"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.lcm(one, other)", "np.lcm(one, other, dtype=int)"),
        ("np.lcm(one, other)", "np.lcm(*one, other)"),
        ("np.lcm(one, other)", "np.hypot(one, other)"),
        ("import torch\n", "import torch\n\n\n    math = None\n"),
    ],
)
def test_other_calls_stay(old: str, new: str) -> None:
    assert old in BEFORE
    decline(BEFORE.replace(old, new, 1), "PG520", "")
