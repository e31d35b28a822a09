"""An element that is looked up by what may be a number or a tensor without dimensions."""

from __future__ import annotations

import pytest
import torch

from pygraph_lint.analysis.domain.region import Region, RegionKind
from pygraph_lint.fixes.engine.file_fixes import apply, fix_text
from tests.fixes.equivalence import assert_same, breaks, module_of, run
from tests.fixes.support import edited, finding, marked, offer

TABLE = """
import torch


class Schedule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = torch.linspace(0.1, 0.9, 4)
        self.wide = self.kept.reshape(2, 2)
        self.one = torch.tensor(1.0)

    def forward(self, x: torch.Tensor, t: int):
        before = t - 2
        a = «self.kept[t - 1]»
        return x * a
"""
WRITTEN = "a = «self.kept[t - 1]»"
SPELLINGS = {
    "a difference": (WRITTEN, "t: int"),
    "a name": ("a = «self.kept[before]»", "t: int"),
    "a parameter": ("a = «self.kept[t]»", "t: int"),
    "a tensor or a number": ("a = «self.kept[before]»", "t: int | torch.Tensor"),
    "perhaps nothing": ("a = 2 if t is None else «self.kept[t - 1]»", "t: Optional[int]"),
    "from behind": ("a = «self.kept[-t]» + «self.kept[before - 1]»", "t: int"),
    "a row": ("a = «self.wide[t // 2]»[0]", "t: int"),
    "chosen": ("s = t - 1\n        s = s + 1\n        a = «self.kept[s]»", "t: int"),
}
INDICES = [torch.tensor(1), torch.tensor(3, dtype=torch.int32), torch.tensor([1, 2, 3]), 2]


def _texts(name: str) -> tuple[str, str]:
    new, said = SPELLINGS[name]
    before = edited(edited(TABLE, WRITTEN, new), "t: int", said)
    before = before.replace("import torch\n", "from typing import Optional\n\nimport torch\n")
    return before, offer(before, "PG407", position="yes")[1]


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_looked_up_on_the_device(name: str) -> None:
    before, after = _texts(name)
    fix, _ = offer(before, "PG407", position="yes")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("element_index", "unsafe"), fix
    assert ".device)[None]].squeeze(0)" in "".join(after.split())
    old, new = (module_of(text).Schedule() for text in (marked(before)[0], after))
    for index in INDICES[: 2 if name == "a row" else None]:
        x = torch.ones(3)
        assert_same(run(old, (x, index)), run(new, (x, index)))


def test_the_graph_goes_on_behind_it() -> None:
    before, after = _texts("a difference")
    old, new = (module_of(text).Schedule() for text in (marked(before)[0], after))
    given = (torch.ones(3), torch.tensor(2))
    assert breaks(old, given) == 1
    assert breaks(new, given) == 0


NEAR = {
    "a mask or a slice": ("a = «self.kept[t]»", "t"),
    "a list": ("a = «self.kept[t]»", "t: list[int]"),
    "a choice": ("a = «self.kept[t]»", "t: bool"),
    "a row of indices": ("a = «self.kept[t]»", "t: list"),
    "a comparison": ("a = «self.kept[t > 1]»", "t: int"),
    "a fraction": ("a = «self.kept[t]»", "t: float"),
    "an element of a list": ("a = «[self.one, 2.0][t]»", "t: int"),
    "an element of anything": ("a = «x.kept[t]»", "t: int"),
    "made anew": ("a = «torch.rand(4)[t]»", "t: int"),
    "written to": ("a = «self.kept[t]»\n        a.mul_(2)", "t: int"),
    "set": ("a = 1\n        «self.kept[t]» = a", "t: int"),
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses_stay(name: str) -> None:
    new, said = NEAR[name]
    before = edited(edited(TABLE, WRITTEN, new), "t: int", said)
    fix, _ = offer(before, "PG407", position="yes")
    assert fix is None or fix.rewrite != "element_index" or fix.applicability == "declined"


def test_a_capture_made_by_hand_is_given_no_number() -> None:
    captured = Region("f", ("f",), RegionKind.CAPTURED)
    fix, _ = offer(TABLE, "PG407", region=captured, position="yes")
    assert fix is None or not fix.edits


LOOKED_UP = """
import torch


class Schedule:
    def __init__(self):
        self.kept = torch.linspace(0.1, 0.9, 4)

    def _scaled(self, x: torch.Tensor, t: int):
        a = «self.kept[t]»
        b = «self.kept[t - 1]»
        «END»
        return x * a * b
"""


@pytest.mark.parametrize("end", ["", "t = int(x.sum())"])
def test_what_can_be_removed_is_not_left_out(end: str) -> None:
    """Two places that other rewrites remove are no reason to move statements; a third one that
    none removes is one.
    """
    text, spans = marked(LOOKED_UP.replace("«END»", f"«{end}»" if end else "pass"))
    codes = ("PG407", "PG407", "PG201")
    found = [
        finding(text, span, code, position="yes") for span, code in zip(spans, codes, strict=False)
    ]
    fixes = fix_text(text, found)
    used = [fix.rewrite for fix in fixes if fix is not None and fix.edits]
    left_out = ["breaking_function"] if end else []
    assert used == ["element_index", "element_index", *left_out]
    changed, applied = apply(text, [fix for fix in fixes if fix is not None])
    assert len(applied) == len(used)
    assert changed.count("disable") == len(left_out)
    x = torch.ones(3)
    old, new = (module_of(each).Schedule() for each in (text, changed))
    for index in (torch.tensor(1), 3):
        assert torch.equal(old._scaled(x, index), new._scaled(x, index))
