"""Positions that only bound ranges: Python numbers, run and compared."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.fixes.equivalence import assert_same, breaks, compiled, module_of, run
from tests.fixes.strategies import FEW
from tests.fixes.support import decline, expect, marked

BEFORE = """
    import torch


    class Model(torch.nn.Module):
        separate = True

        def positions(self, count: int, dtype, device):
            pos = torch.arange(0, count, dtype=torch.int64, device=device).to(dtype)
            pooled = pos
            found = []
            for block in range(2):
                if block > 0:
                    pooled = self.pooled(pos, block)
                    found.append(self.relative(pos, 2, pooled, shift=2))
                pos = pooled
                found.append(self.relative(pos, 1))
            return found

        def pooled(self, pos: torch.Tensor, block: int):
            if self.separate:
                first = pos.new_tensor([-(2**block) + 1])
                rest = pos[1:-1] if block < 2 else pos[1:]
                return torch.cat([first, rest[::2]], 0)
            else:
                return pos[::2]

        def relative(self, pos: torch.Tensor, stride, pooled: torch.Tensor | None = None, shift=1):
            if pooled is None:
                pooled = pos
            top = pooled[0] - pos[0]
            highest = top + shift * len(pooled) * stride
            lowest = pooled[0] - pos[-1]
            return «torch.arange(highest, lowest - 1, -stride, dtype=torch.long, device=pos.device)»

        def forward(self, x):
            return [x.sum() * each for each in self.positions(x.shape[0], x.dtype, x.device)]
    """
AFTER = """
    import torch


    class Model(torch.nn.Module):
        separate = True

        def positions(self, count: int, dtype, device):
            pos = list(range(0, count))
            pooled = pos
            found = []
            for block in range(2):
                if block > 0:
                    pooled = self.pooled(pos, block)
                    found.append(self.relative(pos, 2, pooled, shift=2, device=device))
                pos = pooled
                found.append(self.relative(pos, 1, device=device))
            return found

        def pooled(self, pos: list[int], block: int):
            if self.separate:
                first = [-(2**block) + 1]
                rest = pos[1:-1] if block < 2 else pos[1:]
                return first + rest[::2]
            else:
                return pos[::2]

        def relative(
            self, pos: list[int], stride, pooled: list[int] | None = None, shift=1, device=None
        ):
            if pooled is None:
                pooled = pos
            top = pooled[0] - pos[0]
            highest = top + shift * len(pooled) * stride
            lowest = pooled[0] - pos[-1]
            return torch.arange(highest, lowest - 1, -stride, dtype=torch.long, device=device)

        def forward(self, x):
            return [x.sum() * each for each in self.positions(x.shape[0], x.dtype, x.device)]
    """
# What stands in the method itself: the device is at hand, and a part is chosen on the way.
INSIDE = """
    import torch


    class Model(torch.nn.Module):
        def forward(self, x):
            pos = torch.arange(x.size(0), device=x.device)
            longer = self.longer(torch.cat((pos[2:] if self.training else pos[1:], pos)))
            return x.sum() + «torch.arange(-pos[-1], longer[-1] * 2, device=pos.device)»

        def longer(self, pos):
            return torch.cat([pos, pos])[1:]
    """
INSIDE_AFTER = """
    import torch


    class Model(torch.nn.Module):
        def forward(self, x):
            pos = list(range(x.size(0)))
            longer = self.longer(((pos[2:] if self.training else pos[1:]) + pos))
            return x.sum() + torch.arange(-pos[-1], longer[-1] * 2, device=x.device)

        def longer(self, pos):
            return (pos + pos)[1:]
    """
PAIRS = {"methods": (BEFORE, AFTER), "inside": (INSIDE, INSIDE_AFTER)}


@pytest.mark.parametrize("name", PAIRS)
def test_positions_are_made_in_python(name: str) -> None:
    before, after = PAIRS[name]
    fix = expect(before, after, "PG407", "unsafe")
    assert "other files" in fix.reason


@pytest.mark.parametrize("name", PAIRS)
def test_no_break_is_left(name: str) -> None:
    before, after = (module_of(marked(text)[0]).Model() for text in PAIRS[name])
    assert breaks(before, (torch.ones(8, 2),)) > 0
    assert breaks(after, (torch.ones(8, 2),)) == 0


@pytest.mark.parametrize("name", PAIRS)
@FEW
@given(rows=st.integers(0, 20), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_they_compute_the_same(name: str, rows: int, dtype: torch.dtype) -> None:
    before, after = (module_of(marked(text)[0]).Model() for text in PAIRS[name])
    arguments = (torch.ones(rows, 2, dtype=dtype, requires_grad=True),)
    seen = run(before, arguments)
    assert_same(seen, run(after, arguments))
    if seen.error is None:
        assert_same(seen, run(compiled(after), arguments))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("count: int", "count"),
        ("count: int", "count: float"),
        ("dtype=torch.int64, device=device", "dtype=torch.float, device=device"),
        ("arange(0, count,", "arange(0, count, 2,"),
        ("arange(0, count,", "linspace(0, count, 4,"),
        ("found = []", "found = [pos]"),
        ("found = []", "found = [pos + 1]"),
        ("found = []", "found = [pos.float()]"),
        ("found = []", "self.pos = pos"),
        ("found = []", "found = [pos[pos]]"),
        ("found = []", "found = [pos == 1]"),
        ("found = []", "found = [torch.stack([pos])]"),
        ("found = []", "found = [torch.cat([pos, dtype])]"),
        ("found = []", "found = [torch.cat([pos, pos], 1)]"),
        ("found = []", "found = [len(pos, 1)]"),
        ("rest[::2]]", "torch.cat([rest, rest])]"),
        ("found = []", "found = [print(pos)]"),
        ("found = []", "found = [self.forward(*pos)]"),
        ("found = []", "found = [self.other(pos)]"),
        ("found = []", "found = [self.relative]"),
        ("found = []", "pos += 1"),
        ("found = []", "pos, found = pos, []"),
        ("pooled = pos\n            found", "pooled = dtype\n            found"),
        ("return pos[::2]", "return block"),
        ("return pos[::2]", "return pos[::block]"),
        ("return pos[::2]", "return pos[block]"),
        ("pos.new_tensor([-(2**block) + 1])", "pos.new_tensor(block)"),
        ("def pooled", "@torch.no_grad()\n        def pooled"),
        ("top = pooled[0] - pos[0]", "top = self.top = pooled[0] - pos[0]"),
        ("top = pooled[0] - pos[0]", "top, _ = pooled[0] - pos[0], 1"),
        ("top = pooled[0] - pos[0]", "top = torch.sin(pooled[0] - pos[0])"),
        ("top = pooled[0] - pos[0]", "top = (pooled[0] - pos[0]).abs()"),
        ("self.positions(x.shape[0], x.dtype, x.device)]", "self.relative(x, 1)]"),
    ],
)
def test_other_positions_stay(old: str, new: str) -> None:
    assert old in BEFORE
    decline(BEFORE.replace(old, new, 1), "PG407", "")
