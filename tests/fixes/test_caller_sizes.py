"""Sizes that each layer copied to the host: copied once in front of the loop, run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, edited, expect, marked

NESTED = """
import torch
from torch import nn


class Attention(nn.Module):
    def forward(
        self,
        x: torch.Tensor,
        ends: torch.Tensor,
        **kwargs,
    ):
        if x.dim() == 3:
            return x
        else:
            # chunk by chunk
            sizes = ends[1:] - ends[:-1]
            sizes_list = «sizes.tolist()»
            chunks = torch.split(x, sizes_list)
            return torch.cat([chunk.cumsum(0) for chunk in chunks])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Attention()

    def forward(self, x, ends, **kwargs):
        return x + self.attention(x * 2, ends=ends, **kwargs)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])

    def forward(self, x, sizes, **kwargs):
        bounds = torch.nn.functional.pad(sizes.cumsum(0), (1, 0))
        # all of them
        for block in self.blocks:
            x = block(
                x,
                bounds,
                **kwargs,
            )
        return x


forward = Model()
"""
NESTED_AFTER = (
    NESTED.replace(
        "        **kwargs,\n    ):",
        "        sizes_list: list[int] | None = None,\n        **kwargs,\n    ):",
    )
    .replace(
        """            sizes = ends[1:] - ends[:-1]
            sizes_list = «sizes.tolist()»
""",
        """            if sizes_list is None:
                sizes = ends[1:] - ends[:-1]
                sizes_list = sizes.tolist()
""",
    )
    .replace(
        "        for block in",
        "        sizes_list = (bounds[1:] - bounds[:-1]).tolist()\n        for block in",
    )
    .replace(
        "                **kwargs,\n            )",
        "                sizes_list=sizes_list,\n                **kwargs,\n            )",
    )
)

DIRECT = """
import torch
from torch import nn


class Layer(nn.Module):
    def forward(self, x, sizes, **kwargs):
        lengths = «sizes.tolist()»
        return torch.cat([chunk.cumsum(0) for chunk in x.split(lengths)])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(2)])

    def forward(self, x, sizes):
        for layer in self.layers:
            x = layer(x, sizes=sizes)
        return x


forward = Model()
"""
DIRECT_AFTER = (
    DIRECT.replace("sizes, **kwargs):", "sizes, lengths=None, **kwargs):")
    .replace(
        "        lengths = «sizes.tolist()»",
        "        if lengths is None:\n            lengths = sizes.tolist()",
    )
    .replace("        for layer", "        lengths = sizes.tolist()\n        for layer")
    .replace("sizes=sizes)", "sizes=sizes, lengths=lengths)")
)

CASES = {"nested": (NESTED, NESTED_AFTER), "direct": (DIRECT, DIRECT_AFTER)}


@pytest.mark.parametrize("name", CASES)
def test_the_caller_copies(name: str) -> None:
    fix = expect(*CASES[name], "PG203", "unsafe")
    assert fix.remains and fix.adds == ("PG203",)
    assert "in front of the layers" in fix.reason


@pytest.mark.parametrize("name", CASES)
def test_what_is_mended_stays(name: str) -> None:
    after = CASES[name][1].replace("= sizes.tolist()", "= «sizes.tolist()»", 1)
    decline(after, "PG203", "")


@pytest.mark.parametrize("name", CASES)
@FEW
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_layers_compute_the_same(name: str, sizes: list[int]) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in CASES[name])
    arguments = (torch.arange(sum(sizes)).float().requires_grad_(), torch.tensor(sizes))
    seen = run(before, arguments)
    assert seen.error is None
    assert_same(seen, run(after, arguments))
    assert_same(seen, run(compiled(after), arguments))


@pytest.mark.parametrize("name", CASES)
def test_one_break_is_left(name: str) -> None:
    before, after = (module_of(marked(text)[0]).forward for text in CASES[name])
    arguments = (torch.ones(5), torch.tensor([2, 3]))
    assert breaks(before, arguments) > breaks(after, arguments) == 1


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("sizes_list = «sizes", "sizes_list, _ = «sizes", ""),
        ("ends[1:] - ends[:-1]", "ends[1:] - x[:-1]", ""),
        ("ends[1:] - ends[:-1]", "ends.diff()", ""),
        (
            "            chunks =",
            "            sizes_list.sort()\n            sizes_list = []\n            chunks =",
            "",
        ),
        ("(x * 2, ends=ends, **kwargs)", "(x * 2, ends=ends)", "does not pass its keywords on"),
        ("(x * 2, ends=ends, **kwargs)", "(x * 2, ends=ends + 1, **kwargs)", "what is passed"),
        ("(x * 2, ends=ends, **kwargs)", "(*x, ends, **kwargs)", "what is passed"),
        ("bounds,\n                **", "bounds + 0,\n                **", "what is passed"),
        ("self.attention = Attention()", "self.attention = Attention().eval()", "wrapped"),
        ("class Model", "class Other(Attention):\n    pass\n\n\nclass Model", "in one place"),
        ("class Model", "other = Attention()\n\n\nclass Model", "in one place"),
        ("for _ in range(3)])", "for _ in range(3)])\n        self.last = Block()", "in one place"),
        (
            "        return x\n\n\nforward",
            "        return block(x, bounds)\n\n\nforward",
            "in one place",
        ),
        (
            "for block in self.blocks:",
            "if True:\n            block = self.blocks[0]",
            "in one place",
        ),
        ("        # all of them", "        sizes_list = []", "something else"),
        ("        **kwargs,\n    ):", "    ):", "no other keywords"),
    ],
)
def test_other_layers_stay(old: str, new: str, reason: str) -> None:
    decline(edited(NESTED, old, new), "PG203", reason)


def test_a_copy_that_is_there_is_passed() -> None:
    there = "        seen = (bounds[1:] - bounds[:-1]).tolist()\n        # all of them\n"
    after = NESTED_AFTER.replace("        sizes_list = (bounds[1:] - bounds[:-1]).tolist()\n", "")
    expect(
        NESTED.replace("        # all of them\n", there),
        after.replace("        # all of them\n", there).replace(
            "sizes_list=sizes_list", "sizes_list=seen"
        ),
        "PG203",
        "unsafe",
    )


@pytest.mark.parametrize("changed", ["seen = seen[:]", "bounds = bounds * 1"])
def test_a_copy_of_what_has_changed_is_not_passed(changed: str) -> None:
    there = "        seen = (bounds[1:] - bounds[:-1]).tolist()\n        # all of them\n"
    text = there + f"        {changed}\n"
    before = NESTED.replace("        # all of them\n", text)
    after = NESTED_AFTER.replace("        # all of them\n", text)
    expect(before, after, "PG203", "unsafe")
