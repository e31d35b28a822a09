"""What each layer would read is read once, in front of the loop over the layers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.fixes.equivalence import breaks, module_of
from tests.fixes.support import edited, marked, offer

LAYERS = """
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, ends: torch.Tensor, **kwargs):
        lengths = ends[1:] - ends[:-1]
        sizes = «lengths.tolist()»
        return torch.cat([self.proj(part).softmax(0) for part in torch.split(x, sizes)])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(2)
        self.mixer = Mixer()

    def forward(self, x, ends, **kwargs):
        return x + self.mixer(self.norm(x), ends, **kwargs)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x, ends):
        for block in self.blocks:
            x = block(x, ends)
        return x
"""
BLOCK = (
    "def forward(self, x, ends, **kwargs):\n"
    "        return x + self.mixer(self.norm(x), ends, **kwargs)"
)
LOOP = "        for block in self.blocks:\n            x = block(x, ends)"
MADE = "        self.blocks = nn.ModuleList([Block() for _ in range(3)])\n"
GROWN = (
    "        blocks = []\n        for _ in range(3):\n            blocks.append(Block())\n"
    "        self.blocks = {}\n"
)
# Two of them as in unrelated projects: attention over images packed into one sequence, where a
# block lets through what it does not know, and over packed documents, by position, perhaps without.
SPELLINGS = {
    "by position": (BLOCK, BLOCK),
    "by name": (LOOP, LOOP.replace("x, ends", "x, ends=ends")),
    "counted": (LOOP, LOOP.replace("block in self.blocks", "_, block in enumerate(self.blocks)")),
    "some of them": (LOOP, LOOP.replace("self.blocks:", "self.blocks[:2]:")),
    "by number": (
        LOOP,
        "        for n in range(3):\n            block = self.blocks[n]\n"
        "            x = block(x, ends)",
    ),
    "a list that grows": (MADE, GROWN.format("nn.ModuleList(blocks)")),
    "one behind the other": (MADE, GROWN.format("nn.Sequential(*blocks)")),
    "over lines": (
        LOOP,
        LOOP.replace("x, ends)", "\n                x,\n                ends,\n            )"),
    ),
    "let through": (
        BLOCK,
        "def forward(self, x, other=None, **kwargs):\n"
        "        return x + self.mixer(self.norm(x), **kwargs)",
    ),
    "all named": (
        BLOCK,
        "def forward(self, x, ends):\n        return x + self.mixer(self.norm(x), ends=ends)",
    ),
    "one number": ("«lengths.tolist()»", "«lengths.max().item()»"),
    "of two": (
        LOOP,
        "        halves = torch.arange(0, 5, 2)\n"
        "        for n, block in enumerate(self.blocks):\n"
        "            if n % 2:\n                now = ends\n"
        "            else:\n                now = halves\n"
        "            x = block(x, now)",
    ),
}


def _spelled(name: str) -> str:
    old, new = SPELLINGS[name]
    text = edited(LAYERS, old, new)
    if name == "let through":
        text = text.replace("block(x, ends)", "block(x, ends=ends)")
    if name == "one number":
        text = text.replace("torch.split(x, sizes)", "torch.split(x, max(sizes, 1))")
    return text


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_read_in_front_of_the_loop(name: str) -> None:
    before = _spelled(name)
    fix, after = offer(before, "PG203")
    assert fix is not None and (fix.rewrite, fix.applicability) == ("carried_read", "unsafe"), fix
    old, new = (module_of(text).Model() for text in (marked(before)[0], after))
    given = (torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 4]))
    assert torch.equal(old(*given), new(*given))
    alone = [module_of(text).Mixer for text in (marked(before)[0], after)]
    torch.manual_seed(1)
    first = alone[0]()
    torch.manual_seed(1)
    assert torch.equal(first(*given), alone[1]()(*given))  # whoever does not pass it
    assert breaks(new, given) < breaks(old, given)


def test_a_list_that_reads_in_each_turn_gets_what_was_read(tmp_path: Path) -> None:
    text = marked(LAYERS)[0]
    lines = (
        "        sizes = lengths.tolist()\n"
        "        return torch.cat([self.proj(part).softmax(0) for part in torch.split(x, sizes)])\n"
    )
    turns = (
        "        parts = [torch.split(each, lengths.tolist(), dim=0) for each in (x, x * 2)]\n"
        "        return torch.cat([self.proj(a + b) for a, b in zip(*parts)])\n"
    )
    path = tmp_path / "model.py"
    path.write_text(edited(text, lines, turns))
    runner = Runner(load(), {})
    fixed = loop.fix_files(runner, [path], True)
    assert [fix.rewrite for _, fix in fixed.applied] == ["carried_read"]
    old, new = (
        module_of(each.decode()).Model() for each in (*fixed.before.values(), *fixed.after.values())
    )
    given = (torch.arange(8.0).reshape(4, 2), torch.tensor([0, 1, 4]))
    assert torch.equal(old(*given), new(*given))
    assert breaks(old, given) > breaks(new, given) == 1


def test_layers_that_are_also_called_one_behind_the_other_keep_their_arguments() -> None:
    text = edited(LAYERS, MADE, GROWN.format("nn.Sequential(*blocks)"))
    text = edited(
        text,
        "    def forward(self, x, ends):",
        "    def run(self, x):\n        return self.blocks(x)\n\n    def forward(self, x, ends):",
    )
    fix, _ = offer(text, "PG203")
    assert fix is None or fix.rewrite != "carried_read" or fix.applicability == "declined"


def test_what_may_be_none_stays_none() -> None:
    text = edited(LAYERS, "ends: torch.Tensor, **kwargs", "ends=None, **kwargs")
    text = edited(
        text,
        "        lengths =",
        "        if ends is None:\n            return x\n        lengths =",
    )
    text = edited(text, "def forward(self, x, ends):", "def forward(self, x, ends=None):")
    text = edited(
        text,
        "lengths = ends[1:] - ends[:-1]\n        sizes = «lengths.tolist()»",
        "sizes = «ends.diff().tolist()»",
    )
    fix, after = offer(text, "PG203")
    assert fix is not None and "ends_read = None if ends is None else ends.diff().tolist()" in after
    x = torch.ones(4, 2)
    old, new = (module_of(each).Model() for each in (marked(text)[0], after))
    for given in ((x,), (x, torch.tensor([0, 4]))):
        assert torch.equal(old(*given), new(*given))


DECLINED = {
    "no loop": (LOOP, "        x = self.blocks[0](x, ends)"),
    "another value in each turn": (LOOP, LOOP + "\n            ends = ends + 0"),
    "changed in each turn": (LOOP, LOOP + "\n            ends.add_(0)"),
    "what is read is changed": (
        "«lengths.tolist()»",
        "«lengths.tolist()»\n        sizes.append(0)",
    ),
    "it depends on the layer": ("ends[1:] - ends[:-1]", "ends.diff() * self.proj.in_features // 2"),
    "it depends on what changes": ("ends[1:] - ends[:-1]", "ends.diff() + x.long().sum() * 0"),
    "a layer of another kind": ("[Block() for _ in range(3)]", "[Block(), nn.Identity()]"),
    "another layer in its place": (
        "self.mixer = Mixer()",
        "self.mixer = Mixer()\n        self.mixer = nn.Identity()",
    ),
    "a decorator that may refuse it": (
        "def forward(self, x, ends, **kwargs):\n        return x +",
        "@torch.no_grad()\n    def forward(self, x, ends):\n        kwargs = {}\n"
        "        return x +",
    ),
    "any number of arguments": ("ends: torch.Tensor, **kwargs", "ends: torch.Tensor, *more"),
}


@pytest.mark.parametrize("name", DECLINED)
def test_near_misses_stay(name: str) -> None:
    fix, after = offer(edited(LAYERS, *DECLINED[name]), "PG203")
    assert "_read" not in after and (fix is None or fix.rewrite != "carried_read" or not fix.edits)


def test_it_is_offered_once() -> None:
    _, after = offer(LAYERS, "PG203")
    text = after.replace("lengths.tolist() if", "«lengths.tolist()» if")
    fix, _ = offer(text, "PG203")
    assert fix is None or fix.rewrite != "carried_read" or fix.applicability == "declined"


def test_it_is_read_behind_what_gives_it_its_value() -> None:
    before = edited(LAYERS, LOOP, f"        ends = ends + 0\n        x = x + 0\n{LOOP}")
    _, after = offer(before, "PG203")
    read = "        ends_read = (ends[1:] - ends[:-1]).tolist()\n"
    assert f"        ends = ends + 0\n{read}        x = x + 0\n" in after
    before = edited(LAYERS, LOOP, f"        if len(x) > 9:\n            ends = ends + 0\n{LOOP}")
    _, after = offer(before, "PG203")
    assert f"            ends = ends + 0\n{read}        for block" in after
