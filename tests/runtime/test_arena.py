"""Memory of a graph's parts, as numbers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pygraph_rt.memory import layout, pool
from pygraph_rt.memory.layout import Placed, cut, lay_out, place
from pygraph_rt.memory.pool import Segment
from pygraph_rt.memory.split import LiveInterval
from pygraph_rt.plan.graph import Patch, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.replay_plan import most_allocated

MIB = 1 << 20


def _placed(sizes: list[list[int]], across: int = 0) -> Placed:
    """Parts of as many nodes as they have scratch blocks, all of a part's in use at once; and one
    block of `across` bytes for all of them.
    """
    scratch = (
        {Block("scratch", 0): LiveInterval(across, 0, sum(map(len, sizes)) - 1)} if across else {}
    )
    parts: list[SubGraph] = []
    start = 0
    for inside in sizes:
        here = range(start, start + len(inside))
        for nbytes in inside:
            scratch[Block("scratch", len(scratch))] = LiveInterval(
                nbytes, here.start, here.stop - 1
            )
        parts.append(SubGraph(here, (), ()))
        start = here.stop
    patches = [
        Patch(n, 0, 8 * b.index, b, 0) for b, use in scratch.items() for n in (use.first, use.last)
    ]
    return place(PatchPlan(tuple(patches), start), parts, scratch, {})


def _sizes(placed: Placed) -> list[list[float]]:
    return [[placed.segments[b] / MIB for b in part.segments] for part in placed.sub_graphs]


def test_what_one_part_returned_fits_another() -> None:
    """densenet121, measured: parts of 262 and of 304 MiB had a segment each."""
    assert _sizes(_placed([[262 * MIB], [304 * MIB]])) == [[304], [304]]
    assert _sizes(_placed([[304 * MIB], [262 * MIB]])) == [[304], [304]]
    assert _sizes(_placed([[240 * MIB], [304 * MIB]])) == [[240], [304]]  # more than a little
    assert _sizes(_placed([[8 * MIB], [9 * MIB]])) == [[8], [9]]  # of segments of another kind
    # What stays from part to part is as large as it was.
    assert _sizes(_placed([[262 * MIB], [304 * MIB]], 280 * MIB)) == [[304, 280], [304]]


def test_to_the_size_that_is_next() -> None:
    sizes = [[100 * MIB], [90 * MIB], [81 * MIB], [75 * MIB], [60 * MIB]]
    assert _sizes(_placed(sizes)) == [[100], [100], [100], [75], [75]]


def test_each_part_takes_a_segment_once() -> None:
    # A part with two blocks is laid out as the larger one and the rest.
    assert _sizes(_placed([[100 * MIB, 90 * MIB], [95 * MIB]])) == [[100, 90], [100]]
    assert _sizes(_placed([[95 * MIB], [98 * MIB, 96 * MIB]])) == [[96], [98, 96]]


@given(st.lists(st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=4), min_size=1, max_size=5))
def test_evening_out_needs_little_more(sizes: list[list[int]]) -> None:
    least: list[int] = []
    for part in sizes:
        inside = {Block("scratch", i): LiveInterval(nbytes, 0, 0) for i, nbytes in enumerate(part)}
        least += [piece.nbytes for piece in cut(inside, lay_out(inside))]
    placed = _placed(sizes)
    chunks = [chunk for part in placed.sub_graphs for chunk in part.segments]
    for block, size in zip(chunks, least, strict=True):
        assert size <= placed.segments[block] <= size * 1.25
    large = {size for size in least if size >= 10 * MIB}
    assert {size for size in placed.segments.values() if size >= 10 * MIB} <= large
    before = most_allocated(placed.sub_graphs, dict(zip(chunks, least, strict=True)))
    assert before <= most_allocated(placed.sub_graphs, placed.segments) <= before * 1.25


def _segment(address: int, size: int, pool: int = 1) -> dict[str, Any]:
    return {"address": address, "total_size": size, "segment_pool_id": (0, pool)}


def test_how_much_of_a_pools_segments_was_used() -> None:
    segments = [_segment(4 * MIB, 2 * MIB), _segment(32 * MIB, 20 * MIB), _segment(MIB, 512, 2)]
    told = [
        (32 * MIB, 3 * MIB),
        (33 * MIB, MIB),  # where something else was before
        (4 * MIB + 1024, 100),
        (4 * MIB, 700),
        (MIB, 512),  # of another pool
        (6 * MIB, 512),  # between two segments
        (60 * MIB, 512),
    ]
    found = pool.pool_segments((0, 1), segments, told)
    assert found == [Segment(4 * MIB, 2 * MIB, 1536), Segment(32 * MIB, 20 * MIB, 3 * MIB)]
    whole = [Segment(4 * MIB, 2 * MIB, 2 * MIB), Segment(32 * MIB, 20 * MIB, 20 * MIB)]
    assert pool.pool_segments((0, 1), segments) == whole
    # What is told of other memory alone says nothing of these.
    assert pool.pool_segments((0, 1), segments, told[-3:]) == whole


def test_a_chunk_has_what_was_used_of_a_segment() -> None:
    segments = [Segment(n * 32 * MIB, 20 * MIB, 3 * MIB) for n in range(4)]
    blocks = [Block("pool", n) for n in range(4)]
    patches = [
        Patch(0, 0, 0, blocks[0], 3 * MIB),  # its end
        Patch(0, 0, 8, blocks[1], 3 * MIB + 1),
        Patch(0, 0, 16, blocks[2], 0),
        Patch(0, 0, 24, Block("input", 3), 0),
    ]
    sizes = layout.segment_sizes(segments, patches, {blocks[2]})
    assert sizes == {blocks[0]: 3 * MIB, blocks[1]: 20 * MIB, blocks[2]: 20 * MIB}


class Allocator:
    """What torch says of its allocator's notes."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.enabled = False
        self.events: list[dict[str, Any]] = []
        memory = SimpleNamespace(_snapshot=self.told, _record_memory_history=self.switch)
        patch.setattr(torch.cuda, "memory", memory)
        patch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: self.enabled, raising=False)

    def told(self) -> dict[str, Any]:
        return {"device_traces": [[], self.events]}

    def switch(
        self,
        enabled: str | None,
        context: None = None,
        max_entries: int = 0,
        clear_history: bool = False,
    ) -> None:
        self.enabled = enabled == "all" and max_entries > 0
        if clear_history:
            self.events = []


def test_the_allocator_is_asked_to_take_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = Allocator(monkeypatch)
    with pool.record_allocations(1) as given:
        assert allocator.enabled
        allocator.events += [
            {"action": "segment_alloc", "addr": 64, "size": 2048},
            {"action": "alloc", "addr": 64, "size": 100},
            {"action": "free_requested", "addr": 64, "size": 100},
        ]
        assert given() == [(64, 100)]
        monkeypatch.setattr(pool, "_EVENTS", 3)  # there may have been more
        assert given() is None
    assert not allocator.enabled
    with pytest.raises(MemoryError), pool.record_allocations(1):
        raise MemoryError
    assert not allocator.enabled


@pytest.mark.parametrize("going_on", [True, False])
def test_a_programs_own_memory_history_is_kept(
    monkeypatch: pytest.MonkeyPatch, going_on: bool
) -> None:
    """Also one that the program has stopped, and may dump later."""
    allocator = Allocator(monkeypatch)
    allocator.enabled = going_on
    history = [{"action": "alloc", "addr": 64, "size": 100}]
    allocator.events = list(history)
    with pool.record_allocations(1) as given:
        assert given() is None
        assert allocator.enabled == going_on
    assert allocator.enabled == going_on
    assert allocator.events == history
