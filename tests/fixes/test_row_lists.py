"""Rows that a loop copies to the host one by one: copied at once, run and compared."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import decline, edited, expect, marked, offer

BEFORE = """
    import torch


    def forward(q, k, ends: torch.LongTensor):
        # rows by rows
        for i in range(1, len(ends)):
            end, _ = «ends[i].tolist()»  # the end
            q = q + k[:, :end].sum() * (ends[i] - ends[i - 1])
        return q
    """

AFTER = (
    marked(BEFORE)[0]
    .replace("    # rows by rows\n", "    # rows by rows\n    ends_list = ends.tolist()\n")
    .replace("= ends[i].tolist()", "= ends_list[i]")
)


def test_the_rows_are_copied_at_once() -> None:
    fix = expect(BEFORE, AFTER, "PG203", "unsafe")
    assert fix.remains
    assert "under another name" in fix.reason


def test_rows_that_are_added_to_a_list() -> None:
    before = edited(
        BEFORE, "end, _ = «ends[i].tolist()»  # the end", "k.extend(«ends[i].tolist()»)"
    )
    _, changed = offer(before, "PG203")
    assert "k.extend(ends_list[i])" in changed


def test_they_compute_the_same_with_fewer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (module_of(text).forward for text in (marked(BEFORE)[0], AFTER))
    ends = torch.tensor([[0, 0], [1, 0], [3, 0]])
    arguments = (torch.randn(2, 2, requires_grad=True), torch.randn(2, 3), ends)
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    waits = []
    original = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda self: waits.append(1) or original(self))
    after(*arguments)
    count = len(waits)
    before(*arguments)
    assert (count, len(waits) - count) == (1, 2)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("end, _ =", "end =", "may be kept"),
        ("ends: torch.LongTensor", "ends", "nothing shows"),
        ("q = q +", "i = 0\n        q = q +", "is another one"),
        ("q = q +", "ends = ends + 1\n        q = q +", "is another one"),
        ("q = q +", "ends[i] = 1\n        q = q +", "may change ends"),
        ("q = q +", "helper(ends)\n        q = q +", "may change ends"),
    ],
)
def test_what_may_change_stays(old: str, new: str, reason: str) -> None:
    decline(edited(BEFORE, old, new), "PG203", reason)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("range(1, len(ends))", "ends"),
        ("range(1, len(ends))", "zip(k)"),
        ("ends[i].tolist()", "ends[0].tolist()"),
        ("ends[i].tolist()", "ends[i, 0].tolist()"),
        ("ends[i].tolist()", "ends.tolist()"),
    ],
)
def test_other_loops_stay(old: str, new: str) -> None:
    decline(edited(BEFORE, old, new), "PG203", "")
