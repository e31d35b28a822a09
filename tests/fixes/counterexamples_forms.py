"""For each precondition of the rewrites for checks, masks and experts, code that goes wrong
without it.
"""

from __future__ import annotations

import torch

from tests.fixes.counterexamples import Case, lines

CASES = [
    # guard_assert
    Case(
        "guard_assert",
        "compiled",
        "PG301",
        lines("assert «(x > 0).all()», f'{x}'", "return x"),
        captured=True,
    ),
    Case(
        "guard_assert",
        "only-asks",
        "PG301",
        lines("assert «(y := x + 1).any()», f'{x}'", "return y"),
    ),
    Case(
        "guard_assert",
        "checked",
        "PG301",
        lines("assert «(x > 0).all()», f'{x}'", "return x"),
    ),
    # masked_write
    Case(
        "masked_write",
        "mask",
        "PG406",
        lines(
            "out = torch.zeros(3)",
            "at = torch.arange(2)",
            "«out[at] = x[at] * 2»",
            "return out",
        ),
        lambda: (torch.ones(3),),
    ),
    Case(
        "masked_write",
        "pure",
        "PG406",
        lines(
            "out = torch.zeros(2, 3)",
            "at = x > 0",
            "«out[stack.pop()][at] = x[at] * 2»",
            "return out, stack",
            head="x: torch.Tensor, stack: list",
        ),
        lambda: (torch.ones(3), [1, 0]),
    ),
    Case(
        "masked_write",
        "elementwise",
        "PG406",
        lines(
            "out = torch.zeros(3)", "at = x > 0", "«out[at] = x[at] - x[at].mean()»", "return out"
        ),
        lambda: (torch.tensor([1.0, 2.0, -9.0]),),
    ),
    Case(
        "masked_write",
        "everywhere",
        "PG406",
        lines("at = x > 0", "«y[at] = x[at] * 2»", "return y", head="x: torch.Tensor, y"),
    ),
]
