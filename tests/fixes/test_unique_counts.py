"""More than one value: asked of neighbours, run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.strategies import FEW, tensors
from tests.fixes.support import decline, edited, expect, marked, offer

BEFORE = """
    import torch


    def forward(x):
        y = x * 2
        # all the same?
        if «len(torch.unique_consecutive(x))» > 1:
            raise ValueError("not all alike")
        return y
    """
AFTER = marked(BEFORE)[0].replace(
    "    if len(torch.unique_consecutive(x)) > 1:",
    "    values = x.flatten()\n    if (values[1:] != values[:-1]).any():",
)


@pytest.mark.parametrize(
    "count",
    [
        "len(torch.unique_consecutive(x))",
        "len(torch.unique(x))",
        "torch.unique(x).numel()",
        "torch.unique_consecutive(x).size(0)",
        "torch.unique_consecutive(x).shape[0]",
    ],
)
def test_neighbours_are_compared(count: str) -> None:
    expect(edited(BEFORE, "len(torch.unique_consecutive(x))", count), AFTER, "PG403")


def test_what_is_computed_is_computed_once() -> None:
    before = edited(BEFORE, "consecutive(x)", "consecutive(x + 1)")
    expect(before, AFTER.replace("= x.flatten", "= (x + 1).flatten"), "PG403")


def test_a_name_that_is_read_is_left() -> None:
    before = edited(BEFORE, "import torch\n", "import torch\nfrom consts import *\n")
    before = edited(before, "return y\n", "return y * values\n")
    _, changed = offer(before, "PG403")
    assert "    values_2 = x.flatten()\n    if (values_2[1:] != values_2[:-1]).any():" in changed


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@FEW
@given(x=tensors())
def test_the_same_branch_is_taken(name: str, x: torch.Tensor) -> None:
    text = marked(BEFORE)[0].replace("unique_consecutive", name)
    before, after = (module_of(it).forward for it in (text, AFTER))
    assert_same(run(before, (x,)), run(after, (x,)))


@pytest.mark.parametrize(
    "values",
    [[1.0, 1.0], [1.0, 2.0, 1.0], [float("nan")] * 2, [float("nan")], [float("inf")] * 3, []],
)
def test_values_alike_and_not(values: list[float]) -> None:
    before, after = (module_of(it).forward for it in (marked(BEFORE)[0], AFTER))
    x = torch.tensor(values, requires_grad=True)
    seen = run(before, (x,))
    assert_same(seen, run(after, (x,)))
    if seen.error is None:
        assert breaks(after, (x,)) <= breaks(before, (x,))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("» > 1", "» > 2", "more than a check"),
        ("» > 1", "» >= 1", "more than a check"),
        ("» > 1", "» != 1", "more than a check"),
        ("len(torch", "sum(torch", "more than a check"),
        ("consecutive(x)", "consecutive(x, dim=0)", "rows are compared"),
        ("if «", "if y is None or «", "more than a check"),
        (':\n        raise ValueError("not all alike")', ": raise ValueError()", "one line"),
    ],
)
def test_other_questions_stay(old: str, new: str, reason: str) -> None:
    decline(edited(BEFORE, old, new), "PG403", reason)
