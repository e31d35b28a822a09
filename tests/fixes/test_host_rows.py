"""Rows of sizes that a loop takes from a tensor."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import assert_same, module_of, run
from tests.fixes.support import edited, expect, marked, offer

BEFORE = """
import torch


def forward(x: torch.Tensor, grid: torch.Tensor):
    found = []
    for h, w in grid:
        area = h * w
        found.append(torch.arange(«h»).expand(2, -1))
        found.append(x[:area] + torch.zeros(area))
    return found
"""
AFTER = marked(BEFORE)[0].replace("in grid:", "in grid.tolist():")


def test_the_rows_are_read_at_once() -> None:
    expect(BEFORE, AFTER, "PG407", "unsafe")
    old, new = module_of(marked(BEFORE)[0]).forward, module_of(AFTER).forward
    arguments = (torch.ones(9), torch.tensor([[1, 2], [3, 2]]))
    assert_same(run(old, arguments), run(new, arguments))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("area = h * w", "area = h * w + grid.sum()"),
        ("area = h * w", "area = h / w"),
        ("area = h * w", "area = (h * w).clamp(1)"),
        ("area = h * w", "area = x[h]"),
        ("area = h * w", "h = h * w; area = h"),
        ("area = h * w", "area = h * w; found.append(area)"),
        ("grid: torch.Tensor", "grid"),
        ("for h, w in grid", "for h, w in zip(grid, x)"),
    ],
)
def test_rows_that_are_used_otherwise_stay(old: str, new: str) -> None:
    text = edited(BEFORE, old, new)
    fix, changed = offer(text, "PG407")
    assert fix is not None and fix.applicability == "declined"
    assert changed == marked(text)[0]
