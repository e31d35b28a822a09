"""Lists that were made tensors only to give sizes: kept as lists, run and compared."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.support import decline, edited, expect, marked

BEFORE = """
    import torch


    def forward(x, lengths):
        width = x.shape[1]

        # a tensor in any case
        if isinstance(lengths, list):
            lengths = torch.tensor(lengths, device=x.device, dtype=torch.long)

        # each row as often as its length says
        rows = [«x[i].repeat(lengths[i])» for i in range(len(lengths))]
        first = x[: lengths[0]]
        return torch.cat(rows), first, width
    """

AFTER = (
    marked(BEFORE)[0]
    .replace("    # a tensor in any case\n", "")
    .replace("    if isinstance(lengths, list):\n", "")
    .replace("        lengths = torch.tensor(lengths, device=x.device, dtype=torch.long)\n\n", "")
)


@pytest.mark.parametrize("code", ["PG104", "PG407"])
def test_the_list_is_kept(code: str) -> None:
    fix = expect(BEFORE, AFTER, code, "unsafe")
    assert "not whole" in fix.reason


@pytest.mark.parametrize("lengths", [[2, 1, 3], torch.tensor([2, 1, 3]), [0, 0, 1]])
def test_they_compute_the_same(lengths: object) -> None:
    before, after = (module_of(text).forward for text in (marked(BEFORE)[0], AFTER))
    arguments = (torch.randn(3, 2, requires_grad=True), lengths)
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    assert_same(seen, run(compiled(after), arguments))


def test_no_break_is_left() -> None:
    before, after = (module_of(text).forward for text in (marked(BEFORE)[0], AFTER))
    arguments = (torch.randn(3, 2), [2, 1, 3])
    assert breaks(before, arguments) > 0
    assert breaks(after, arguments) == 0


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("first = x", "first = lengths + x", "more than single sizes"),
        ("first = x[: lengths[0]]", "first = lengths[:2]", "more than single sizes"),
        ("first = x[: lengths[0]]", "first = lengths[0, 1]", "more than single sizes"),
        ("first = x[: lengths[0]]", "first = lengths[0]", "more than single sizes"),
        ("first = x[: lengths[0]]", "first = x * lengths[0]", "more than single sizes"),
        ("first = x[: lengths[0]]", "lengths[0] = 1", "more than single sizes"),
        ("first = x[: lengths[0]]", "first = x.split(lengths)", "more than single sizes"),
        ("first = x", "first = lengths.sum() + x", "more than single sizes"),
        ("width =", "lengths = sorted(lengths)\n    width =", "not only what is passed"),
        ("first = x", "lengths = None\n    first = x", "not only what is passed"),
    ],
)
def test_lists_that_are_used_otherwise_become_tensors(old: str, new: str, reason: str) -> None:
    decline(edited(BEFORE, old, new), "PG407", reason)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("isinstance(lengths, list)", "isinstance(lengths, (list, int))"),
        ("isinstance(lengths, list)", "isinstance(x, list)"),
        ("isinstance(lengths, list)", "not torch.is_tensor(lengths)"),
        ("torch.tensor(lengths", "torch.tensor(lengths[1:]"),
        ("torch.tensor(lengths", "torch.zeros(lengths"),
        ("        lengths = torch", "        print(x)\n        lengths = torch"),
        ("        lengths = torch", "        sizes = torch"),
    ],
)
def test_other_statements_stay(old: str, new: str) -> None:
    decline(edited(BEFORE, old, new), "PG407", "")
