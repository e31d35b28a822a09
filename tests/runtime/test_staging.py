"""Graphs launched in sub_graphs: where they are cut, that memory changes hands in between, and what
happens when a later part fails.
"""

from __future__ import annotations

import gc
import itertools
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.capture import record
from pygraph_rt.capture.nodes import in_order
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import split
from pygraph_rt.memory.split import (
    CallBytes,
    LiveInterval,
    LiveIntervals,
    live_intervals,
    sub_graphs,
    whole,
)
from pygraph_rt.options import Options
from pygraph_rt.plan.graph import Edge, Patch, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.region.region import Partition
from pygraph_rt.replay import executable as stage
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import COUNT, SoftwareGpu, install

pytestmark = pytest.mark.usefixtures("way_of_taking")

MIB = 1 << 20


def line(nodes: int) -> frozenset[Edge]:
    """Edges from each node to the next one."""
    return frozenset(Edge(a, a + 1, b"") for a in range(nodes - 1))


def plan_of(uses: dict[Block, list[int]], nodes: int) -> PatchPlan:
    return PatchPlan(tuple(Patch(n, 0, 0, b, 0) for b, at in uses.items() for n in at), nodes)


def peak(sizes: CallBytes, found: list[SubGraph]) -> int:
    """The most that is held at a time, by doing what the sub_graphs say."""
    held = sum(sizes.dropped.values())
    highest = 0
    for part in found:
        held += sum(sizes.arena[b] for b in part.segments) + sum(
            sizes.outputs[k] for k in part.outputs
        )
        highest = max(highest, held)
        held -= sum(sizes.dropped[i] for i in part.dropped)
        held -= sum(sizes.arena[b] for b in part.freed)
    return highest


def backward(
    layers: int, saved: int, gradient: int, others: int = 0, extra: tuple[Edge, ...] = ()
) -> tuple[LiveIntervals, CallBytes]:
    """Layer by layer, a saved activation is read and a gradient filled."""
    uses: dict[Block, list[int]] = {Block("pool", 0): list(range(layers))}
    for i in range(layers):
        uses[Block("input", i)] = [i]
        uses[Block("output", i)] = [i]
    sizes = CallBytes(
        {Block("pool", 0): MIB},
        [gradient] * layers,
        dict.fromkeys(range(layers), saved),
        others=others,
    )
    return live_intervals(plan_of(uses, layers), line(layers) | frozenset(extra), sizes), sizes


def test_a_backward_needs_little_more_than_activations_or_gradients() -> None:
    uses, sizes = backward(64, 16 * MIB, 16 * MIB)
    found = sub_graphs(uses)
    assert peak(sizes, whole(uses)) == (2 * 64 * 16 + 1) * MIB
    assert peak(sizes, found) <= 1.25 * 64 * 16 * MIB
    assert 2 < len(found) <= 8


def test_a_launch_more_has_to_save_enough() -> None:
    uses, _ = backward(64, MIB // 8, MIB // 8)
    assert sub_graphs(uses) == whole(uses)
    uses, _ = backward(64, 2 * MIB, 2 * MIB)
    assert len(sub_graphs(uses)) > 1
    uses, _ = backward(64, 2 * MIB, 2 * MIB, others=64 << 30)
    assert sub_graphs(uses) == whole(uses)


def test_nodes_out_of_order_are_not_cut() -> None:
    uses, _ = backward(64, 16 * MIB, 16 * MIB, extra=(Edge(5, 3, b""),))
    assert sub_graphs(uses) == whole(uses)
    uses, _ = backward(64, 16 * MIB, 16 * MIB, extra=(Edge(3, 5, b""),))
    assert sub_graphs(uses) != whole(uses)


def test_nodes_side_by_side_share_no_scratch_memory() -> None:
    blocks = [Block("scratch", i) for i in range(3)]
    plan = plan_of({blocks[0]: [0, 1], blocks[1]: [2]}, 4)
    sizes = CallBytes({}, [], {}, dict.fromkeys(blocks, 8))  # the third one is never used

    def uses(*edges: tuple[int, int]) -> dict[Block, LiveInterval]:
        return live_intervals(plan, frozenset(Edge(a, b, b"") for a, b in edges), sizes).scratch

    assert uses((0, 1), (1, 2), (2, 3)) == {blocks[0]: (8, 0, 1), blocks[1]: (8, 2, 2)}
    assert uses((0, 1), (0, 2), (1, 3), (2, 3)) == {blocks[0]: (8, 0, 2), blocks[1]: (8, 1, 2)}
    assert uses((0, 2), (1, 2), (2, 3)) == {blocks[0]: (8, 0, 1), blocks[1]: (8, 2, 2)}
    assert uses((1, 0), (1, 2), (2, 3)) == {blocks[0]: (8, 0, 3), blocks[1]: (8, 0, 3)}


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 8), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_nodes_that_may_run_at_the_same_time(nodes: int, pairs: set[tuple[int, int]]) -> None:
    edges = frozenset(Edge(a, b, b"") for a, b in pairs if a < b < nodes)
    reaches = [[a == b for b in range(nodes)] for a in range(nodes)]
    for b in range(nodes):
        for a in reversed(range(b)):
            reaches[a][b] = any(e.source == a and reaches[e.target][b] for e in edges)
    alone = [all(reaches[min(a, b)][max(a, b)] for b in range(nodes)) for a in range(nodes)]
    found = split._concurrent(nodes, edges)
    for a, b in itertools.product(range(nodes), repeat=2):
        between = any(alone[min(a, b) : max(a, b) + 1])
        assert (b in found[a]) == (a == b or not between)


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(7)), st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6))))
def test_nodes_are_numbered_in_the_order_of_the_edges(
    order: list[int], pairs: set[tuple[int, int]]
) -> None:
    edges = [(order[a] + 100, order[b] + 100) for a, b in pairs if a < b]
    nodes = list(range(100, 107))
    found = in_order(nodes, edges)
    assert sorted(found) == nodes
    assert all(found.index(a) < found.index(b) for a, b in edges)
    if all(a < b for a, b in edges):
        assert found == nodes


@st.composite
def graphs(draw: Any) -> tuple[PatchPlan, CallBytes]:
    nodes = draw(st.integers(2, 7))
    where = st.lists(st.integers(0, nodes - 1), min_size=1, max_size=3)
    size = st.integers(0, 60)
    kinds = {kind: draw(st.integers(0, 4)) for kind in ("input", "output", "pool", "scratch")}
    uses = {Block(k, i): draw(where) for k, n in kinds.items() for i in range(n)}  # type: ignore[arg-type]
    arena = {b: draw(size) for b in uses if b.kind == "pool"}
    scratch = {b: draw(size) for b in uses if b.kind == "scratch"}
    outputs = [draw(size) for _ in range(kinds["output"])]
    dropped = {i: draw(size) for i in range(kinds["input"])}
    if draw(st.booleans()):  # an output that no kernel fills, an argument that none reads
        outputs.append(draw(size))
        dropped[9] = draw(size)
    return plan_of(uses, nodes), CallBytes(arena, outputs, dropped, scratch)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(1, 30))
def test_no_other_cuts_are_better_and_nothing_is_used_while_it_is_away(
    graph: tuple[PatchPlan, CallBytes], price: int
) -> None:
    plan, sizes = graph
    uses = live_intervals(plan, line(plan.nodes), sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split, "_LEAST", price)
        patch.setattr(split, "_WORTH", 1 << 40)
        patch.setattr(split, "_LARGE", 30)
        found = sub_graphs(uses)
    assert [n for part in found for n in part.nodes] == list(range(plan.nodes))
    assert sorted(k for part in found for k in part.outputs) == list(range(len(sizes.outputs)))
    assert sorted(b for part in found for b in part.segments) == sorted(sizes.arena)
    gone: set[Block] = set()
    there = {Block("input", i) for i in sizes.dropped} | sizes.scratch.keys()
    for part in found:
        there |= {*part.segments, *(Block("output", k) for k in part.outputs)}
        used = {p.block for p in plan.patches if p.node in part.nodes}
        assert used <= there - gone
        gone |= {*part.freed, *(Block("input", i) for i in part.dropped)}

    def load(a: int, b: int, small: int) -> int:
        def counted(found: Iterable[LiveInterval]) -> int:
            return sum(u.nbytes * (small if u.nbytes < 30 else 1) for u in found)

        scratch = uses.scratch.values()
        return counted(u for u in uses.held() if u.first < b and u.last >= a) + max(
            counted(u for u in scratch if u.first <= n <= u.last) for n in range(a, b)
        )

    def cost(cuts: tuple[int, ...], small: int) -> int:
        parts = itertools.pairwise([0, *cuts, plan.nodes])
        return max(load(a, b, small) for a, b in parts) + price * len(cuts)

    every = [
        cuts for k in range(plan.nodes) for cuts in itertools.combinations(range(1, plan.nodes), k)
    ]
    made = tuple(part.nodes.start for part in found[1:])
    # First the lowest peak where small pieces count twice, then that of all bytes.
    least = min(cost(cuts, 2) for cuts in every)
    first = [cuts for cuts in every if cost(cuts, 2) == least and set(cuts) <= set(made)]
    assert cost(made, 1) in {
        min(cost(more, 1) for more in every if set(cuts) <= set(more)) for cuts in first
    }


# -- on the software GPU

LAYERS = 4
BODY = """
def partition_0(args):
    a, b, c, d, tangent, kept = args
    args.clear()
    made = []
    x = tangent
    while layers := [t for t in (d, c, b, a) if t is not None]:
        y = empty_strided_cuda((64,), (1,), torch.float32)
        launch("add", x, layers[0], y)
        a, b, c, d = (None if t is layers[0] else t for t in (a, b, c, d))
        del layers
        x = empty_strided_cuda((64,), (1,), torch.float32)
        launch("halve", y, x)
        made.append(y)
    return (*made, kept)
"""


class Machine:
    """A backward of four layers on a software GPU: what is saved for a layer is added to the
    gradient.
    """

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        patch.setattr(split, "_LEAST", 1)
        patch.setattr(split, "_WORTH", 1 << 40)
        patch.setattr(record, "_OWN_PLACE", 1)
        self.gpu = SoftwareGpu()
        self.environment = install(patch, self.gpu)
        module = types.ModuleType("generated")
        self.allocations = 0
        self.fail_at = 0
        module.__dict__.update(
            torch=torch, empty_strided_cuda=self.allocate, launch=self.gpu.launch_kernel
        )
        exec(BODY, module.__dict__)
        self.region = Region("graph 0/0 backward partition 1 of 1")
        donated = frozenset(range(LAYERS))
        self.partition = Partition(
            module.__dict__["partition_0"],
            self.region,
            Options(**{"graphs": "always", **options}),
            self.environment,
            Signature(0, written=donated, donated=donated, released=donated),
        )
        self.kept = self.fresh()
        self.alive: list[tuple[int, int]] = []

    def allocate(self, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        self.allocations += 1
        if self.allocations == self.fail_at:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.gpu.allocate(size, stride, dtype)

    def fresh(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    def call(self) -> None:
        args = [self.fresh() for _ in range(LAYERS + 1)] + [self.kept]
        expected = []
        x = args[LAYERS]
        for layer in reversed(range(LAYERS)):
            expected.append(x + args[layer])
            x = expected[-1] * 0.5
        saved = [weakref.ref(a) for a in args[:LAYERS]]
        self.allocations, self.alive = 0, []
        launch = self.gpu.launch

        def watched(executable: int, stream: int) -> int:
            self.alive.append((sum(s() is not None for s in saved), self.allocations))
            return launch(executable, stream)

        self.gpu.launch = watched  # type: ignore[method-assign]
        try:
            *results, kept = self.partition(args)
        finally:
            self.gpu.launch = launch  # type: ignore[method-assign]
        assert kept is self.kept
        assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))
        assert not args


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_memory_changes_hands_between_parts(machine: Machine) -> None:
    for _ in range(6):
        machine.call()
    machine.partition.refresh()
    assert (machine.region.state, machine.region.served) == ("serving", 4), machine.region.reason
    assert "bit for bit" in machine.region.note
    saved, made = zip(*machine.alive, strict=True)
    assert len(machine.alive) == machine.region.launches > 1
    assert saved[0] == LAYERS
    assert saved[-1] < LAYERS
    assert sorted(saved, reverse=True) == list(saved)
    assert made[0] < made[-1]
    machine.environment.disposal.drain()
    assert len(machine.gpu.executables) == len(machine.gpu.graphs) == len(machine.alive)
    machine.partition.close()
    assert not machine.gpu.executables
    assert not machine.gpu.graphs


def test_many_calls_leave_nothing_behind(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither handles of the driver nor Python objects, also where executables are made anew."""
    monkeypatch.setattr(stage, "_WORTH_IT", 1)
    for _ in range(2):
        machine.call()
    first = set(machine.gpu.executables)
    for _ in range(2):
        machine.call()
    rooms = [machine.fresh() for _ in range(32)]
    turns: Iterator[torch.Tensor] = iter(())
    monkeypatch.setattr(machine.gpu, "allocate", lambda *layout: next(turns))

    def count() -> tuple[int, int, int]:
        machine.gpu.launches.clear()
        machine.gpu.submitted.clear()
        gc.collect()
        return len(machine.gpu.executables), len(machine.gpu.graphs), len(gc.get_objects())

    for call in range(220):
        if call == 20:
            before = count()
        turns = iter(rooms)
        machine.call()
    after = count()
    machine.partition.refresh()
    assert machine.region.served == 222
    assert not first & set(machine.gpu.executables)
    assert after[:2] == before[:2] == (len(machine.alive),) * 2
    assert after[2] <= before[2] + 20


def test_too_little_memory_for_the_first_part_is_an_ordinary_call(machine: Machine) -> None:
    for _ in range(4):
        machine.call()
    machine.fail_at = 1
    machine.call()
    machine.fail_at = 0
    machine.call()
    assert machine.region.misses == {"there was too little memory for its intermediates": 1}


def test_too_little_memory_for_a_later_part_is_the_callers_error(machine: Machine) -> None:
    for _ in range(4):
        machine.call()
    machine.fail_at = machine.alive[-1][1]
    with pytest.raises(torch.OutOfMemoryError):
        machine.call()
    machine.fail_at = 0
    assert not machine.region.misses
    machine.call()
    machine.partition.refresh()
    assert machine.region.served == 3


def test_a_later_part_that_fails_is_the_callers_error(machine: Machine) -> None:
    for _ in range(4):
        machine.call()
    codes = iter([0, 719])
    machine.gpu.fail = lambda call: next(codes, 0) if call == "launch" else 0
    with pytest.raises(DriverError, match="cuGraphLaunch failed"):
        machine.call()
    assert machine.region.state == "refused"
    machine.call()
