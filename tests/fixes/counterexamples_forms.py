"""For each precondition of the rewrites for checks, masks and experts, code that goes wrong
without it.
"""

from __future__ import annotations

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
]
