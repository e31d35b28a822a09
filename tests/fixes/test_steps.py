"""Steps that depend on a number read from a tensor: always computed, and selected."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect

BEFORE = """
    import torch


    def forward(x: torch.Tensor, mask, count: int, more: bool):
        if mask is not None and («mask.sum().item()» < x.shape[0]):
            # one more
            count = count + 1
            # for the others
            wide = mask.bool()[:, None]
            x = torch.where(wide, x, torch.full((), count - 1, dtype=x.dtype))
        elif more:
            count = count + 2

        return x + torch.arange(2) * count
    """

AFTER = """
    import torch


    def forward(x: torch.Tensor, mask, count: int, more: bool):
        if mask is not None:
            chosen = mask.sum() < x.shape[0]
            # one more
            chosen_count = count + 1
            # for the others
            wide = mask.bool()[:, None]
            chosen_x = torch.where(wide, x, torch.full((), chosen_count - 1, dtype=x.dtype))
            if more:
                count = count + 2
            count = torch.where(chosen, chosen_count, count)
            x = torch.where(chosen, chosen_x, x)
        elif more:
            count = count + 2

        return x + torch.arange(2) * count
    """

ELIF = "        elif more:\n            count = count + 2\n"
INSIDE = "            if more:\n                count = count + 2\n"


def _plain(text: str) -> str:
    return (
        "\n".join(line.removeprefix("    ") for line in text.split("\n"))
        .replace("«", "")
        .replace("»", "")
    )


def test_a_step_is_selected() -> None:
    fix = expect(BEFORE, AFTER, "PG201", "unsafe")
    assert "a number becomes a tensor" in fix.reason


def test_without_another_arm() -> None:
    expect(BEFORE.replace(ELIF, ""), AFTER.replace(ELIF, "").replace(INSIDE, ""), "PG201", "unsafe")


def test_a_name_that_is_taken_is_not_taken_again() -> None:
    before = BEFORE.replace("more", "chosen")
    after = AFTER.replace("chosen = mask", "chosen_2 = mask").replace(
        "where(chosen,", "where(chosen_2,"
    )
    expect(before, after.replace("more", "chosen"), "PG201", "unsafe")


@FEW
@given(
    mask=st.none() | st.lists(st.integers(0, 1), min_size=3, max_size=3),
    count=st.integers(-3, 3),
    more=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int64]),
)
def test_they_compute_the_same(
    mask: list[int] | None, count: int, more: bool, dtype: torch.dtype
) -> None:
    old, new = module_of(_plain(BEFORE)).forward, module_of(_plain(AFTER)).forward
    given_mask = None if mask is None else torch.tensor(mask)
    x = torch.arange(6).reshape(3, 2).to(dtype)
    arguments = (x.requires_grad_(x.is_floating_point()), given_mask, count, more)
    seen = run(old, arguments)
    assert seen.error is None
    assert_same(seen, run(new, arguments))
    assert_same(seen, run(compiled(new), arguments))


def test_no_break_is_left() -> None:
    arguments = (torch.ones(3, 2), torch.tensor([1, 0, 1]), 2, True)
    assert breaks(module_of(_plain(BEFORE)).forward, arguments) > 0
    assert breaks(module_of(_plain(AFTER)).forward, arguments) == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mask is not None and ", ""),
        (" < x.shape[0]", ""),
        (" < x.shape[0]", " in range(3)"),
        (" < x.shape[0]", " < x[0].sum().item()"),
        ("count = count + 1", "count += 1"),
        ("count = count + 1", "count, more = 1, more"),
        ("count = count + 1", "count = more(count)"),
        ("count = count + 1", "count = [count]"),
        ("count = count + 1", "fresh = count + 1"),
        ("wide = mask", "x = x + 1\n            wide = mask"),
        ("wide = mask", "wide = 0; wide = mask"),
        ("[0]):", "[0]):  # padded"),
        ("elif more", "elif more()"),
        ("elif more", "else"),
        ("count = count + 2\n", "count = count + 2\n        else:\n            count = 0\n"),
        ("* count", "* float(count)"),
        ("* count", "+ torch.arange(count)"),
        ("* count", "* fresh"),
    ],
)
def test_other_steps_stay(old: str, new: str) -> None:
    assert old in BEFORE
    text = BEFORE.replace(old, new, 1)
    if "fresh" in new:
        text = text.replace("* count", "* fresh").replace("count = count + 1", "fresh = count + 1")
    decline(text, "PG201", "")
