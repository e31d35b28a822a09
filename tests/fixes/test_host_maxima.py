"""The largest of the rows that a loop has on the host: taken there, run and compared."""

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


def forward(x, grid):
    parts = []
    # rows of each image
    for t, h, w in grid.tolist():
        parts.append(torch.ones(h, w).repeat(t, 1).flatten())
    size = grid[:, 1:].max()
    return torch.cat(parts) * x, «torch.arange(size, device=x.device)» * 2
"""
ZIPPED = """
import torch


def forward(x, grid):
    parts = []
    for (t, h, w), row in zip(grid.tolist(), grid):
        parts.append(torch.ones(h, w).repeat(t, 1).flatten() * row.sum())
    size = grid.max()
    return torch.cat(parts) * x, «torch.arange(size)»
"""
MODULE = """
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))

    def forward(self, count: int):
        numbers = «torch.arange(count, dtype=self.scale.dtype)»
        return torch.outer(numbers, self.scale)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = Positions()

    def forward(self, x, grid):
        parts = []
        for t, h, w in grid.tolist():
            parts.append(torch.ones(h, w).repeat(t, 1).flatten())
        size = grid[:, 1:].max()
        table = self.positions(size)
        return torch.cat(parts) * x, table


forward = Model()
"""
BEFORE = {"plain": PLAIN, "zipped": ZIPPED, "module": MODULE}
AFTER = {
    "plain": marked(PLAIN)[0]
    .replace("    for t, h, w in grid.tolist()", "    for t, h, w in grid_list")
    .replace("    for", "    grid_list = grid.tolist()\n    for")
    .replace("grid[:, 1:].max()", "max(max(row[1:]) for row in grid_list)"),
    "zipped": marked(ZIPPED)[0]
    .replace("    for", "    grid_list = grid.tolist()\n    for")
    .replace("zip(grid.tolist()", "zip(grid_list")
    .replace("grid.max()", "max(max(row) for row in grid_list)"),
    "module": marked(MODULE)[0]
    .replace("        for t, h, w in grid.tolist()", "        for t, h, w in grid_list")
    .replace("        for", "        grid_list = grid.tolist()\n        for")
    .replace("grid[:, 1:].max()", "max(max(row[1:]) for row in grid_list)"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_the_rows_are_copied_once(name: str) -> None:
    fix = expect(BEFORE[name], AFTER[name], "PG407", "unsafe")
    assert "without rows" in fix.reason
    assert fix.remains == (name == "module")


ROWS = st.lists(st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(0, 4)), min_size=1)


@pytest.mark.parametrize("name", BEFORE)
@FEW
@given(rows=ROWS, dtype=st.sampled_from([torch.int32, torch.int64]))
def test_they_compute_the_same(
    name: str, rows: list[tuple[int, int, int]], dtype: torch.dtype
) -> None:
    old, new = (module_of(marked(text[name])[0]).forward for text in (BEFORE, AFTER))
    arguments = (torch.tensor([1.5]), torch.tensor(rows, dtype=dtype))
    seen = run(old, arguments)
    assert seen.error is None
    assert_same(seen, run(new, arguments))
    assert_same(seen, run(compiled(new), arguments))


@pytest.mark.parametrize("name", ["plain", "module"])
def test_fewer_breaks_are_left(name: str) -> None:
    old, new = (module_of(marked(text[name])[0]).forward for text in (BEFORE, AFTER))
    arguments = (torch.tensor([1.5]), torch.tensor([[1, 2, 3], [2, 4, 1]]))
    assert breaks(new, arguments) < breaks(old, arguments)


@pytest.mark.parametrize(
    ("name", "old", "new", "reason"),
    [
        ("plain", "grid[:, 1:].max()", "grid[1:].max()", ""),
        ("plain", "grid[:, 1:].max()", "grid[:, 1:2].max()", ""),
        ("plain", "grid[:, 1:].max()", "grid[:, 1:].max(1)[0]", ""),
        ("plain", "grid[:, 1:].max()", "grid[:, 1:].min()", ""),
        ("plain", "grid[:, 1:].max()", "grid.abs().max()", ""),
        ("plain", "in grid.tolist()", "in x.tolist()", "no loop above"),
        ("plain", "for t, h, w in grid.tolist()", "for row in grid.tolist()", "no loop above"),
        ("plain", "torch.arange(size", "torch.arange(1, size", ""),
        ("zipped", "zip(", "list(", "no loop above"),
        ("module", "        numbers =", "        count = count + 1\n        numbers =", ""),
        ("module", "self.scale)\n\n", "self.scale) + count\n\n", ""),
        ("module", "self.positions(size)", "self.positions(size + 1)", "nothing shows what"),
    ],
)
def test_other_sizes_stay(name: str, old: str, new: str, reason: str) -> None:
    decline(edited(BEFORE[name], old, new), "PG407", reason)
