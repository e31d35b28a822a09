"""Rows of sizes that a loop takes from a tensor: read at once, run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, edited, expect, marked

PLAIN = """
    import torch


    def forward(x, grid: torch.Tensor, merge: int):
        parts = []
        # rows of each image
        for t, h, w in grid:
            rows = «torch.arange(h)».unsqueeze(1).expand(-1, w)
            area = h * w
            rows = rows.reshape(h // merge, merge, w)
            parts.append(torch.stack([rows.flatten()] * 2, dim=-1).repeat(t, 1)[:area])
        return torch.cat(parts) * x
    """

ZIPPED = """
    import torch
    from torch.nn import functional as F


    def forward(x, grid, merge: torch.Tensor):
        parts = []
        for (t, h, w), size in zip(grid, merge):
            rows = torch.ones(1, t, h, w)
            parts.append(«F.interpolate(rows, size=(h // size, w // size))».flatten() * x)
        return parts, grid[:, 1:].max()
    """

COUNTED = """
    import torch


    def forward(x, grid: torch.Tensor, merge):
        parts = []
        for i, (t, h, w) in enumerate(grid):
            parts.append(x[i].expand(«t, h», w))
        return parts
    """

AFTER = {
    "plain": marked(PLAIN)[0].replace("in grid:", "in grid.tolist():"),
    "zipped": marked(ZIPPED)[0].replace("zip(grid, merge)", "zip(grid.tolist(), merge.tolist())"),
    "counted": marked(COUNTED)[0].replace("(grid)", "(grid.tolist())"),
}
BEFORE = {"plain": PLAIN, "zipped": ZIPPED, "counted": COUNTED}


@pytest.mark.parametrize("name", BEFORE)
def test_the_rows_are_read_at_once(name: str) -> None:
    fix = expect(BEFORE[name], AFTER[name], "PG407", "unsafe")
    assert "has to be a tensor" in fix.reason


def _arguments(name: str, grid: list[list[int]]) -> tuple[object, ...]:
    rows = torch.tensor(grid)
    other: object = torch.full((len(grid),), 2) if name == "zipped" else 2
    return torch.randn(len(grid), requires_grad=True)[:, None, None, None].sum(0), rows, other


SIZES = st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(1, 3))


@pytest.mark.parametrize("name", ["plain", "zipped"])
@FEW
@given(grid=st.lists(SIZES.map(lambda it: [it[0], 2 * it[1], 2 * it[2]]), min_size=1, max_size=3))
def test_they_compute_the_same(name: str, grid: list[list[int]]) -> None:
    before, after = (module_of(text).forward for text in (marked(BEFORE[name])[0], AFTER[name]))
    arguments = _arguments(name, grid)
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))


def test_compiled_as_eager_with_fewer_breaks() -> None:
    before, after = (module_of(text).forward for text in (marked(PLAIN)[0], AFTER["plain"]))
    arguments = _arguments("plain", [[1, 2, 2], [2, 4, 2]])
    assert_same(run(before, arguments), run(compiled(after), arguments))
    assert breaks(after, arguments) < breaks(before, arguments)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("area = h * w", "area = h * w + grid.sum()", "uses grid itself"),
        ("area = h * w", "area = grid[0].sum()", "uses grid itself"),
        ("return torch", "return t, torch", "t is used for more than sizes"),
        ("area = h * w", "area = h / w", "h is used for more"),
        ("area = h * w", "area = h * w\n        area = area + 1", "h is used for more"),
        ("area = h * w", "area = (h * w).clamp(1)", "h is used for more"),
        ("area = h * w", "area = x[h]", "h is used for more"),
        ("area = h * w", "area = torch.stack([h, w])", "h is used for more"),
        ("area = h * w", "area = 1 if h is w else 2", "h is used for more"),
        ("area = h * w", "area = helper(h)", "h is used for more"),
        ("area = h * w", "h = h * w\n        area = h", "h is used for more"),
        ("area = h * w", "area = [h for _ in x][0]", "h is used for more"),
    ],
)
def test_rows_that_are_used_otherwise_stay(old: str, new: str, reason: str) -> None:
    decline(edited(PLAIN, old, new), "PG407", reason)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("grid: torch.Tensor", "grid"),
        ("    parts = []", "    parts = []\n    grid = grid + 1"),
        ("in grid:", "in grid.sizes:"),
        ("in grid:", "in reversed(grid):"),
        ("in grid:", "in zip(grid):"),
        ("in grid:", "in enumerate(grid, start=1):"),
        ("for t, h, w in", "for t, (h, w) in"),
        ("for t, h, w in", "for t, h, *w in"),
    ],
)
def test_other_loops_are_not_meant(old: str, new: str) -> None:
    decline(edited(PLAIN, old, new), "PG407", "")
