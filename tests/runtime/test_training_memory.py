"""Intermediates of the generated code in memory of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.capture import record
from pygraph_rt.capture.capture import own_arguments
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import allocate, layout
from pygraph_rt.memory.layout import cut, lay_out, place
from pygraph_rt.memory.split import LiveInterval
from pygraph_rt.options import Options
from pygraph_rt.plan.graph import Patch, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.replay_plan import most_allocated
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import COUNT, SoftwareGpu, install

pytestmark = pytest.mark.usefixtures("way_of_taking")

BODY = """
def partition_0(args):
    saved, tangent, kept = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", saved, tangent, buf0)
    if lets_go:
        del saved
    looks()
    buf1 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", buf0, kept, buf1)
    buf2 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("halve", buf1, buf2)
    return (buf2,)
"""


class Backward:
    """A partition on a software GPU that gets a saved activation, a tangent and a parameter."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        lets_go: bool,
        donated: set[int],
        beside: Backward | None = None,
        **options: Any,
    ) -> None:
        self.gpu = beside.gpu if beside else SoftwareGpu()
        self.environment = beside.environment if beside else install(patch, self.gpu)
        self.region = Region("graph 0/0 backward partition 1 of 1")
        self.partition = Partition(
            self.gpu.generated(BODY, lets_go=lets_go, looks=lambda: self.looks()),
            self.region,
            Options(**{"graphs": "always", **options}),
            self.environment,
            Signature(0, written=frozenset(donated), donated=frozenset(donated)),
        )
        self.kept = self.fresh()
        self.looks: Callable[[], object] = lambda: None

    def fresh(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    def call(self) -> torch.Tensor:
        """One call; returns what was saved, as it is afterwards."""
        saved, tangent = self.fresh(), self.fresh()
        expected = (saved + tangent + self.kept) * 0.5
        (result,) = self.partition([saved, tangent, self.kept])
        assert torch.equal(result, expected)
        return saved


def chain(length: int) -> str:
    """A partition with an intermediate after the other."""
    lines = ["def partition_0(args):", "    saved, tangent, kept = args", "    args.clear()"]
    lines += ["    x = empty_strided_cuda((64,), (1,), torch.float32)"]
    lines += ["    launch('add', saved, tangent, x)"]
    for _ in range(length):
        lines += ["    y = empty_strided_cuda((64,), (1,), torch.float32)"]
        lines += ["    launch('halve', x, y)", "    x = y"]
    return "\n".join([*lines, "    return (x,)"])


def test_an_observed_call_may_free_what_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that a backward lets go of on its way is not held to its end."""
    backward = Backward(monkeypatch, lets_go=True, donated={0}, observe=2)
    held: list[bool] = []
    for _ in range(2):
        saved, tangent = backward.fresh(), backward.fresh()
        alive = [StorageWeakRef(t.untyped_storage()) for t in (saved, tangent)]
        backward.looks = lambda alive=alive: held.extend(not a.expired() for a in alive)
        args = [saved, tangent, backward.kept]
        del saved, tangent
        backward.partition(args)
    assert held == [False, True] * 2


@pytest.mark.parametrize("own", [1, 1 << 20])
@pytest.mark.parametrize("segment", [1, 10 << 20])
def test_large_intermediates_take_turns_in_little_memory(
    monkeypatch: pytest.MonkeyPatch, own: int, segment: int
) -> None:
    """`segment`: from which size on memory is taken first, and a layout cut."""
    monkeypatch.setattr(record, "_OWN_PLACE", own)
    monkeypatch.setattr(layout, "OWN_SEGMENT", segment)
    monkeypatch.setattr(allocate, "OWN_SEGMENT", segment)
    backward = Backward(monkeypatch, True, {0})
    exec(chain(6), namespace := backward.partition._function.__globals__)
    backward.partition._function = namespace["partition_0"]
    for _ in range(5):
        saved, tangent = backward.fresh(), backward.fresh()
        expected = (saved + tangent) * 0.5**6
        (result,) = backward.partition([saved, tangent, backward.kept])
        assert torch.equal(result, expected)
    backward.partition.refresh()
    assert backward.region.served == 3, backward.region.reason
    assert "bit for bit" in backward.region.note
    assert backward.region.arena_bytes == (2 * 512 if own == 1 else 6 * 512)


def test_only_memory_that_nobody_else_has_is_let_go_of_early() -> None:
    base = torch.zeros(8)
    args = [base[:4], base[4:], torch.zeros(4), 3]
    assert own_arguments(args, frozenset({0, 2, 3})) == [[2]]
    assert own_arguments(args, frozenset({0, 1, 3})) == [[0, 1]]


uses = st.tuples(st.integers(1, 5000), st.integers(0, 9), st.integers(0, 9)).map(
    lambda u: LiveInterval(u[0], min(u[1:]), max(u[1:]))
)


@settings(max_examples=200, deadline=None)
@given(st.lists(uses, max_size=14))
def test_scratch_memory_overlaps_only_at_different_times(found: list[LiveInterval]) -> None:
    blocks = {Block("scratch", i): use for i, use in enumerate(found)}
    offsets, size = lay_out(blocks)
    assert offsets.keys() == blocks.keys()
    for a, b in itertools.combinations(blocks, 2):
        apart = blocks[a].last < blocks[b].first or blocks[b].last < blocks[a].first
        low, high = sorted((a, b), key=lambda block: (offsets[block], blocks[block].nbytes))
        assert apart or offsets[low] + blocks[low].nbytes <= offsets[high]
    assert all(offset % 512 == 0 for offset in offsets.values())
    ends = [offsets[b] + -(-blocks[b].nbytes // 512) * 512 for b in blocks]
    assert size == max(ends, default=0)


MIB = 1 << 20


@settings(max_examples=200, deadline=None)
@given(st.lists(uses, min_size=1, max_size=14))
def test_a_layout_is_cut_where_nothing_lies_across(found: list[LiveInterval]) -> None:
    scale = 4096  # so that some are larger than 10 MiB
    blocks = {
        Block("scratch", i): use._replace(nbytes=use.nbytes * scale) for i, use in enumerate(found)
    }
    whole = lay_out(blocks)
    pieces = cut(blocks, whole)
    assert sum(piece.nbytes for piece in pieces) == whole.nbytes
    start = 0
    for piece in pieces:
        for block, offset in piece.offsets.items():
            assert start + offset == whole.offsets[block]
            assert 0 <= offset <= piece.nbytes - blocks[block].nbytes
        start += piece.nbytes
    assert sorted(b for piece in pieces for b in piece.offsets) == sorted(blocks)
    if len(pieces) > 1:
        assert pieces[0].nbytes == max(use.nbytes for use in blocks.values()) >= 10 * MIB


def test_the_largest_block_has_memory_that_fits_others_of_its_size() -> None:
    big, beside, after = (Block("scratch", i) for i in range(3))
    words = {big: [0, 1], beside: [1, 2], after: [2, 3]}
    plan = PatchPlan(tuple(Patch(n, 0, 0, w, 8) for w in words for n in words[w]), 4)
    scratch = {
        big: LiveInterval(488 * MIB, 0, 1),
        beside: LiveInterval(4 * MIB, 1, 2),
        after: LiveInterval(9 * MIB, 2, 3),
    }
    placed = place(plan, [SubGraph(range(4), (), ())], scratch, {})
    first, second = Block("pool", 0), Block("pool", 1)
    assert placed.segments == {first: 488 * MIB, second: 4 * MIB}
    assert placed.sub_graphs == [SubGraph(range(4), (first, second), ())]
    where = [(p.node, p.block, p.addend) for p in placed.plan.patches]
    assert where[:4] == [(0, first, 8), (1, first, 8), (1, second, 8), (2, second, 8)]
    assert where[4:] == [(2, first, 8), (3, first, 8)]
    straddling = {
        **scratch,
        beside: LiveInterval(4 * MIB, 0, 2),
        after: LiveInterval(487 * MIB, 2, 3),
    }
    low = {
        big: LiveInterval(20 * MIB, 0, 1),
        beside: LiveInterval(12 * MIB, 1, 2),
        after: LiveInterval(19 * MIB, 2, 3),
    }
    assert len(place(plan, [SubGraph(range(4), (), ())], straddling, {}).segments) == 2
    assert place(plan, [SubGraph(range(4), (), ())], low, {}).segments == {
        first: 20 * MIB,
        second: 12 * MIB,
    }
    across = {**low, after: LiveInterval(30 * MIB, 2, 3), beside: LiveInterval(12 * MIB, 0, 1)}
    assert place(plan, [SubGraph(range(4), (), ())], across, {}).segments == {first: 32 * MIB}


def test_scratch_memory_of_one_part_goes_with_it() -> None:
    a, b, c = (Block("scratch", i) for i in range(3))
    segment = Block("pool", 0)
    words = {a: [0, 1], b: [1, 2], c: [2, 5], segment: [0, 5]}
    patches = [Patch(n, 0, 8 * i, w, 16) for i, w in enumerate(words) for n in words[w]]
    plan = PatchPlan(tuple(patches), 6)
    parts = [
        SubGraph(range(3), (segment,), (0,), (4,)),
        SubGraph(range(3, 5), (), (1,)),
        SubGraph(range(5, 6), (), ()),
    ]
    scratch = {
        a: LiveInterval(1000, 0, 1),
        b: LiveInterval(2000, 1, 2),
        c: LiveInterval(3000, 2, 5),
    }
    placed = place(plan, parts, scratch, {segment: 4096})
    first, across = Block("pool", 1), Block("pool", 2)
    assert placed.segments == {segment: 4096, first: 3072, across: 3072}
    assert placed.sub_graphs[0] == SubGraph(
        range(3), (segment, first, across), (0,), (4,), (first,)
    )
    assert placed.sub_graphs[1:] == parts[1:]
    assert most_allocated(placed.sub_graphs, placed.segments) == 4096 + 2 * 3072
    moved = {p.offset // 8: (p.block, p.addend) for p in placed.plan.patches}
    assert moved == {0: (first, 2048 + 16), 1: (first, 16), 2: (across, 16), 3: (segment, 16)}
    assert [p[:3] for p in placed.plan.patches] == [p[:3] for p in patches]
