"""An element of a table, taken if the index is not below the first one."""

from __future__ import annotations

import pytest
import torch

from tests.fixes.equivalence import breaks, module_of
from tests.fixes.support import edited, marked, offer

TABLE = """
import torch


class Schedule(torch.nn.Module):
    def __init__(self, last=True):
        super().__init__()
        self.rates = torch.linspace(0.1, 0.2, 4)
        self.kept = torch.cumprod(1 - self.rates, dim=0)
        self.one = torch.tensor(1.0)
        self.final = torch.tensor(1.0) if last else self.kept[0]

    def forward(self, x: torch.Tensor, t):
        before = t - 2
        a = self.kept[before] if «before >= 0» else self.one
        return x * a
"""
WRITTEN = "a = self.kept[before] if «before >= 0» else self.one"
SPELLINGS = {
    "as it is": WRITTEN,
    "an element of the table": "a = self.kept[before] if «before >= 0» else self.final",
    "a number": "a = self.kept[before] if «before >= 0» else 1.0",
    "the other way round": "a = self.one if «before < 0» else self.kept[before]",
    "the one before": "a = self.kept[t - 1] if «t > 0» else torch.tensor(1.0)",
    "up to a bound": "a = self.one if «t <= 1» else self.kept[t - 2]",
    # Found in three samplers of unrelated projects after the rewrite was there.
    "on a device": (
        "a = self.kept[t - 1] if «t > 0» else torch.tensor(1.0, device=self.kept.device)"
    ),
    "in a difference": "a = 1 - (self.kept[t - 1] if «t > 0» else torch.tensor(1.))",
    "a whole number": (
        "table = self.kept\n        a = (0.5 / table[before] if t > 3 else 1) * (\n"
        "            table[before] if «before >= 0» else 1\n        )"
    ),
    "in a product": "a = 2 * (self.kept[before] if «before >= 0» else self.one)",
    "under a name": (
        "last = self.one\n        table = self.kept\n"
        "        a = table[before] if «before >= 0» else last"
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_looked_up_without_a_branch(name: str) -> None:
    before = edited(TABLE, WRITTEN, SPELLINGS[name])
    fix, after = offer(before, "PG301")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("guarded_lookup", "unsafe"), fix
    assert "both arms are computed" in fix.reason
    old, new = (module_of(text).Schedule() for text in (marked(before)[0], after))
    x = torch.ones(3)
    for t in range(5):
        for given in (torch.tensor(t), torch.tensor(t, dtype=torch.int32), t):
            assert torch.equal(old(x, given), new(x, given))
    assert breaks(new, (x, torch.tensor(3) + 0)) < breaks(old, (x, torch.tensor(3) + 0))


DECLINED = {
    "a value with another shape": "a = self.kept[before] if «before >= 0» else torch.ones(3)",
    "any value": "a = self.kept[before] if «before >= 0» else x",
    "an index that may be negative": "a = self.kept[t - 3] if «t > 1» else self.one",
    "another index": "a = self.kept[t * 2] if «t > 1» else self.one",
    "another question": "a = self.kept[before] if «before != 0» else self.one",
    "a list": "a = [self.one, 2.0][before] if «before >= 0» else self.one",
    "perhaps not asked": "a = x.numel() > 9 and (self.kept[before] if «before >= 0» else self.one)",
    "in a comprehension": "a = [self.kept[i] if «i >= 0» else self.one for i in x][0]",
    "written to": "a = self.kept[before] if «before >= 0» else self.final\n        a.mul_(2)",
    "made anew": "a = torch.rand(4)[before] if «before >= 0» else self.one",
}


@pytest.mark.parametrize("name", DECLINED)
def test_near_misses_stay(name: str) -> None:
    fix, after = offer(edited(TABLE, WRITTEN, DECLINED[name]), "PG301")
    assert fix is None or fix.rewrite != "guarded_lookup" or fix.applicability == "declined"
    assert "clamp(min=0)" not in after


def test_a_finding_on_the_element_is_served_alike() -> None:
    other = "a = «self.kept[before]» if before >= 0 else self.one"
    fix, after = offer(edited(TABLE, WRITTEN, other), "PG407")
    assert fix is not None and fix.rewrite == "guarded_lookup"
    assert after == offer(TABLE, "PG301")[1]
    outside = "a = self.kept[before] if before >= 0 else self.one\n        a = a + «self.kept[t]»"
    fix, _ = offer(edited(TABLE, WRITTEN, outside), "PG407")
    assert fix is None or fix.rewrite != "guarded_lookup" or not fix.edits
