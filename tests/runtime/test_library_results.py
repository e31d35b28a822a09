"""What library calls return: which of it may stay where it is, and that it is right there."""

from __future__ import annotations

import contextlib
import itertools
import weakref
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import layout, library_outputs, pool, slabs, split
from pygraph_rt.memory.library_outputs import RetainedSegment, agree, candidates, choose
from pygraph_rt.memory.split import CallBytes, live_intervals, sub_graphs
from pygraph_rt.options import Options
from pygraph_rt.plan.graph import Patch, PatchPlan
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Fixed, Fresh, OutputPlan, Storage
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import BYTES, COUNT, SoftwareGpu, install
from tests.runtime.test_staging import line

pytestmark = pytest.mark.usefixtures("way_of_taking")

FLOAT, HALF = torch.float32, torch.float16
MIB = 1 << 20
view = torch._C._dynamo.guards._reinterpret_tensor


def storage(nbytes: int, dtype: torch.dtype = FLOAT, allocation: int | None = None) -> Storage:
    return Storage((nbytes // dtype.itemsize,), (1,), dtype, nbytes, allocation)


def segment(address: int, *blocks: int, state: str = "active_allocated") -> dict[str, Any]:
    """A segment of a pool; negative sizes are free."""
    found = [{"size": abs(n), "state": state if n > 0 else "inactive"} for n in blocks]
    return {"address": address, "total_size": sum(map(abs, blocks)), "blocks": found}


def test_only_what_a_backward_alone_sees_may_stay() -> None:
    storages = tuple(storage(64, allocation=n) for n in (None, None, 3, None, None))
    fresh = [Fresh(n, (16,), (1,), 0, True) for n in range(5)]
    # Results 0 to 4 are storages 0 to 4, and the first one is seen a second time.
    plan = OutputPlan(storages, (*fresh, Fixed(None), Fresh(0, (4,), (1,), 4, False)))
    assert candidates(plan, {0, 1, 2, 3, 4}) == {1, 3, 4}
    assert candidates(plan, {0, 1, 2, 3, 4, 6}) == {0, 1, 3, 4}
    assert candidates(plan, {3}) == {3}
    assert candidates(plan, ()) == frozenset()


BASE = 0x7F00_0000_0000


@pytest.mark.parametrize(
    ("blocks", "others", "kept"),
    [
        ([6 * MIB, 6 * MIB, -8 * MIB], 0, True),  # 8 MiB are little
        ([6 * MIB, 6 * MIB - 512, -8 * MIB - 512], 0, False),
        ([6 * MIB, 5 * MIB, -9 * MIB], 277 * MIB, True),  # a 32nd of all that is returned
        ([6 * MIB, 5 * MIB, -9 * MIB], 277 * MIB - 32, False),
        ([9 * MIB, -11 * MIB], 1 << 40, False),  # less than half
        ([10 * MIB + 512, -10 * MIB + 512], 1 << 40, True),
        ([24 * MIB, -8 * MIB], 1 << 40, True),  # large, but nobody keeps more than the one result
        ([12 * MIB, 12 * MIB], 1 << 40, False),  # who keeps one of them would keep both
    ],
)
def test_a_segment_is_kept_that_holds_little_else(
    blocks: list[int], others: int, kept: bool
) -> None:
    storages, places = [], {}
    address = BASE
    for nbytes in blocks:
        if nbytes > 0:
            places[len(storages)] = address
            storages.append(storage(nbytes))
        address += abs(nbytes)
    found = choose([*storages, storage(others)], places, [segment(BASE, *blocks)])
    size = sum(map(abs, blocks))
    expected = tuple((n, at - BASE) for n, at in places.items())
    assert found == ([RetainedSegment(BASE, size, expected)] if kept else [])


@given(st.permutations(range(3)), st.sampled_from([(1, 16384), (2, 49152), (3, 98304)]))
def test_the_fullest_segments_come_first(order: list[int], case: tuple[int, int]) -> None:
    """Of three segments of 4 KiB, 512, 1024 and 1536 bytes are no results; `case` says how many are
    kept where so much is returned.
    """
    many, total = case
    full = [storage(4096 - 512 * (n + 1)) for n in range(3)]
    places = {n: BASE + MIB * order[n] for n in range(3)}
    segments = [segment(places[n], full[n].nbytes, -512 * (n + 1)) for n in range(3)]
    segments.sort(key=lambda s: int(s["address"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library_outputs, "_LITTLE", 0)
        found = choose([*full, storage(total - 9216)], places, segments)
    assert [kept.places for kept in found] == [((n, 0),) for n in range(many)]


def keep(
    storages: list[Storage], places: dict[int, int], segments: list[dict[str, Any]]
) -> list[RetainedSegment]:
    """What is kept where much else is returned."""
    return choose([*storages, storage(MIB)], places, segments)


def test_only_results_that_begin_a_block_of_their_own_stay() -> None:
    blocks = [1024, 1024, 1024, 1024]
    storages = [storage(1024)] * 4
    places = {n: BASE + 1024 * n for n in range(4)}
    whole = segment(BASE, *blocks)
    (found,) = keep(storages, places, [whole])
    assert found.places == tuple((n, 1024 * n) for n in range(4))
    # In the middle of a block, longer than one, freed, twice in one place, or in no segment at all:
    # such a one is copied, the others are not.
    cut = keep(storages, {**places, 3: BASE + 3 * 1024 + 512}, [whole])
    assert cut == keep([*storages[:3], storage(2048)], places, [whole])
    freed = segment(BASE, 1024, 1024, 1024, -1024)
    assert cut == keep(storages, places, [freed])
    assert cut == keep(storages, {**places, 3: 4096}, [whole])
    assert cut == keep([*storages, storage(1024)], {**places, 4: places[3]}, [whole])
    assert cut == [RetainedSegment(BASE, 4096, tuple((n, 1024 * n) for n in range(3)))]
    pending = segment(BASE, *blocks, state="active_pending_free")
    assert keep(storages, places, [pending]) == []


def test_the_results_in_a_segment_have_one_dtype() -> None:
    sizes = [512, 512, 512, 512]
    places = {n: BASE + 512 * n for n in range(4)}
    mixed = [storage(512, dtype) for dtype in (HALF, HALF, FLOAT, HALF)]
    (kept,) = keep(mixed, places, [segment(BASE, *sizes)])
    assert [n for n, _ in kept.places] == [0, 1, 3]
    halves = [storage(512, dtype) for dtype in (HALF, HALF, FLOAT, FLOAT)]
    assert keep(halves, places, [segment(BASE, *sizes)]) == []


def test_captures_agree_wherever_their_segments_are() -> None:
    a, b = (
        RetainedSegment(BASE, 4096, ((0, 0), (1, 1024))),
        RetainedSegment(BASE + MIB, 2048, ((2, 0),)),
    )
    moved = [b._replace(address=7 * MIB), a._replace(address=9 * MIB)]
    assert agree([a, b], moved)
    assert agree([], [])
    assert not agree([a, b], [a])
    assert not agree([a], [a._replace(size=8192)])
    assert not agree([a], [a._replace(places=((0, 0), (1, 2048)))])


@given(st.lists(st.integers(1, 4).map(lambda n: 512 * n), min_size=1, max_size=8))
def test_a_segments_outputs_lie_where_they_lay_in_the_capture(sizes: list[int]) -> None:
    storages = [storage(nbytes - 4) for nbytes in sizes]
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    kept = RetainedSegment(BASE, sum(sizes), tuple(enumerate(starts)))
    segments = [pool.Segment(BASE - MIB, 512, 512)]
    segments += [pool.Segment(BASE, sum(sizes), sum(sizes))]
    ((block, slab),) = library_outputs.slabs([kept], segments, storages).items()
    assert block == Block("pool", 1)
    made = slabs.SlabMemory(slab, torch._C._dynamo.guards._empty_strided_cpu, view)
    (first,) = made.allocate(7)
    found = made.outputs()
    assert [t.data_ptr() - first for t in found] == starts
    assert [t.nbytes for t in found] == [nbytes - 4 for nbytes in sizes]
    assert {t.untyped_storage().nbytes() for t in found} == {sum(sizes)}


def test_a_kept_segment_is_not_returned_and_shared_arguments_go_together() -> None:
    scratch, kept = Block("pool", 0), Block("pool", 1)
    large = Block("output", 1)
    words = {scratch: [0, 1], kept: [2, 3], large: [5]}
    words |= {Block("input", i): [i] for i in range(6)}
    plan = PatchPlan(tuple(Patch(n, 0, 0, b, 0) for b, at in words.items() for n in at), 6)
    sizes = CallBytes(
        {scratch: 512 * MIB, kept: 512 * MIB},
        [0, 1024 * MIB],
        {0: 512 * MIB, 2: 512 * MIB},
        retained=frozenset({kept}),
        together={0: (3,)},
    )
    uses = live_intervals(plan, line(6), sizes)
    assert uses.arena[kept] == split.LiveInterval(512 * MIB, 2, 5)
    assert uses.arena[scratch] == split.LiveInterval(512 * MIB, 0, 1)
    assert uses.dropped == {
        0: split.LiveInterval(512 * MIB, 0, 3),
        2: split.LiveInterval(512 * MIB, 0, 2),
    }
    found = sub_graphs(uses)
    assert len(found) > 1
    assert [kept in part.segments for part in found].count(True) == 1
    assert all(kept not in part.freed for part in found)
    (together,) = [part for part in found if 0 in part.dropped]
    assert 3 in together.dropped
    assert 3 in together.nodes or together.nodes.start > 3


# -- on the software GPU

FORWARD = """
def partition_0(args):
    a, b = args
    args.clear()
    seen = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", a, b, seen)
    first = library("halve", seen)
    second = library("add", first, b)
    third = library("add", first, second)
    return (seen, first, second, view(third, (8, 8), (8, 1), 0))
"""
BACKWARD = """
def partition_0(args):
    first, second, third, tangent = args
    args.clear()
    half = empty_strided_cuda((64,), (1,), torch.float32)
    launch("halve", tangent, half)
    launch("add", first, half, first)
    del half
    total = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", first, second, total)
    return (total, view(first, (8, 8), (8, 1), 0))
"""
SAVED = frozenset({1, 2, 3})


class Step:
    """A forward on a software GPU, three of whose results a library returned, and its backward."""

    def __init__(self, patch: pytest.MonkeyPatch, saved: frozenset[int] = SAVED) -> None:
        self.gpu = SoftwareGpu()
        self.gpu.segment_bytes, self.gpu.block_bytes = 3 * BYTES, BYTES
        self.environment = install(patch, self.gpu)
        self.allocations = self.fail_at = 0
        self.forward = self.partition(FORWARD, Signature(0, forward=True, saved=saved))
        given = frozenset({0, 1, 2})
        signature = Signature(0, gradients=True, written=given, donated=given, released=given)
        self.backward = self.partition(BACKWARD, signature)

    def partition(self, body: str, signature: Signature) -> Partition:
        function = self.gpu.generated(body, view=view, library=self.library)
        function.__globals__["empty_strided_cuda"] = self.allocate
        region, options = Region("graph 0/0 partition 1 of 1"), Options(graphs="always")
        return Partition(function, region, options, self.environment, signature)

    def allocate(self, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        self.allocations += 1
        if self.allocations == self.fail_at:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return self.gpu.allocate(size, stride, dtype)

    def library(self, name: str, *tensors: torch.Tensor) -> torch.Tensor:
        """Takes memory that the generated code does not see being taken."""
        out = self.gpu.allocate((COUNT,), (1,), FLOAT)
        self.gpu.launch_kernel(name, *tensors, out)
        return out

    def fresh(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), FLOAT).copy_(torch.randn(COUNT))

    def call(self) -> tuple[torch.Tensor, ...]:
        """A forward, its results compared with plain arithmetic."""
        a, b = self.fresh(), self.fresh()
        first = (a + b) * 0.5
        expected = (a + b, first, first + b, (first + (first + b)).reshape(8, 8))
        self.allocations = 0
        results: tuple[torch.Tensor, ...] = self.forward([a, b])
        for result, value in zip(results, expected, strict=True):
            assert torch.equal(result, value)
        return results

    def launched(self) -> list[str]:
        """The kernels of the last launch."""
        return [self.gpu.graph_nodes[n][0] for n in self.gpu.executables[self.gpu.launches[-1][0]]]


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def test_saved_results_stay_in_their_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(monkeypatch)
    kept = [step.call() for _ in range(8)]
    copies = [[t.clone() for t in results] for results in kept]
    step.forward.refresh()
    assert step.forward.region.served == 6, step.forward.region.reason
    assert "bit for bit" in step.forward.region.note
    assert step.forward.region.arena_bytes == 0
    assert step.launched() == ["add", "halve", "add", "add"]
    for seen, *saved in kept[2:]:
        assert len({address(t) for t in saved}) == 1
        assert saved[0].untyped_storage().nbytes() == 3 * BYTES
        assert seen.untyped_storage().nbytes() == BYTES
    assert len({address(t) for results in kept[2:] for t in results}) == 2 * 6
    for results, copy in zip(kept, copies, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(results, copy, strict=True))


def test_what_the_caller_gets_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(monkeypatch, SAVED - {3})
    *_, (seen, first, second, third) = [step.call() for _ in range(6)]
    assert step.launched() == ["add", "halve", "add", "add", "copy"]
    assert address(first) == address(second)
    assert third.untyped_storage().nbytes() == seen.untyped_storage().nbytes() == BYTES


@pytest.mark.parametrize("why", ["wasteful", "elsewhere"])
def test_other_results_are_copied(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    step = Step(monkeypatch)
    if why == "wasteful":
        step.gpu.segment_bytes = 6 * BYTES
    if why == "elsewhere":  # in every second pool there is something else before them
        record = step.gpu.record
        captures: list[Any] = []

        def shifted(run: Any, pool: Any) -> Any:
            captures.append(pool)
            if len(captures) % 2 == 0:
                step.gpu.segment_bytes = 4 * BYTES
                pool.take((COUNT,), (1,), FLOAT)
            return record(run, pool)

        monkeypatch.setattr(step.gpu, "record", shifted)
    results = [step.call() for _ in range(6)]
    step.forward.refresh()
    assert step.forward.region.served == 4, step.forward.region.reason
    assert step.launched()[4:] == ["copy"] * 3
    assert len({address(t) for found in results[2:] for t in found}) == 4 * 4
    opened = [entry[0] for entry in step.gpu.log]
    assert opened.count("reserve") == opened.count("free") == (4 if why == "elsewhere" else 2)


def test_a_backward_may_write_to_one_and_return_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "_LEAST", 1)
    monkeypatch.setattr(split, "_WORTH", 1 << 40)
    step = Step(monkeypatch)
    gradients = []
    for i in range(8):
        _, first, second, third = step.call()
        tangent = step.fresh()
        written = first + tangent * 0.5
        still, place = second.clone(), first.data_ptr()
        unread = third.clone()
        total, gradient = step.backward([first, second, third, tangent])
        assert torch.equal(total, written + still)
        assert gradient.data_ptr() == place
        assert torch.equal(third, unread)
        gradients.append((gradient, written.reshape(8, 8)))
        assert (address(first) == address(second)) == (i > 1)
        del first, second, third
    step.backward.refresh()
    assert step.backward.region.served == 6, step.backward.region.reason
    assert all(torch.equal(a, b) for a, b in gradients)


def test_behind_hooks_each_result_owns_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(monkeypatch)
    for _ in range(4):
        step.call()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        hooked = step.call()
    assert {t.untyped_storage().nbytes() for t in hooked} == {BYTES}
    assert hooked[3].shape == (8, 8)
    plain = step.call()
    assert [t.untyped_storage().nbytes() for t in plain] == [BYTES, *[3 * BYTES] * 3]
    step.forward.refresh()
    assert step.forward.region.served == 4


@pytest.mark.parametrize("failing", ["segment", "copy", "launch"])
def test_a_call_that_fails_leaves_no_memory_to_the_ordinary_path(
    monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    step = Step(monkeypatch)
    for _ in range(4):
        step.call()
    taken: list[Any] = []
    allocate = step.gpu.allocate

    def watched(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
        found = allocate(size, stride, dtype)
        taken.append(weakref.ref(found))
        return found

    step.gpu.allocate = watched  # type: ignore[method-assign]
    function = step.forward._function
    alive: list[int] = []

    def ordinary(args: list[Any]) -> Any:
        alive.append(sum(t() is not None for t in taken[2:]))  # the first two are the arguments
        return function(args)

    step.forward._function = ordinary
    # The output, the segment, and with hooks memory for each result.
    step.fail_at = {"segment": 2, "copy": 4, "launch": 0}[failing]
    if failing == "launch":
        step.gpu.fail = lambda call: 719 if call == "launch" else 0
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
    with hooks if failing == "copy" else contextlib.nullcontext():
        step.call()
    assert alive == [0]
    short = {"there was too little memory for its intermediates": 1}
    assert step.forward.region.misses == ({} if failing == "launch" else short)


def test_what_stays_counts_as_its_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[CallBytes] = []

    def watched(plan: Any, edges: Any, sizes: CallBytes) -> split.Uses:
        seen.append(sizes)
        return live_intervals(plan, edges, sizes)

    monkeypatch.setattr(split, "live_intervals", watched)
    step = Step(monkeypatch)
    for _ in range(3):
        step.call()
    (sizes,) = seen
    (block,) = sizes.retained
    assert sizes.arena == {block: 3 * BYTES}
    assert list(sizes.outputs) == [BYTES, 0, 0, 0]


def test_what_stays_shares_no_other_memory_and_is_there_without_a_word() -> None:
    storages = (*[storage(512)] * 4, storage(MIB))
    plan = OutputPlan(
        storages, tuple(Fresh(n, s.size, (1,), 0, True) for n, s in enumerate(storages))
    )
    segments = [pool.Segment(BASE, 1024, 512)]
    kept = library_outputs.slabs(
        [RetainedSegment(BASE, 1024, ((1, 0), (2, 512)))], segments, storages
    )
    signature = Signature(0, forward=True, saved=frozenset(range(5)))
    shared = [slabs.slab_plan(plan, signature, k).groups[0].storages for k in ({}, kept)]
    assert shared == [{0, 1, 2, 3}, {0, 3}]
    assert layout.segment_sizes(segments, [], kept) == {Block("pool", 0): 1024}
    assert layout.segment_sizes(segments, []) == {}


UNFILLED = """
def partition_0(args):
    a, b = args
    args.clear()
    first = library("add", a, b)
    never = unfilled()
    return (first, never)
"""


@pytest.mark.parametrize("known", [True, False])
def test_what_a_library_never_fills_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """An attention without dropout returns a seed for its backward that nobody writes or reads."""
    step = Step(monkeypatch)
    scalars: dict[int, Any] = {1: "nothing"} if known else {}
    signature = Signature(0, forward=True, saved=frozenset({0, 1}), scalars=scalars)
    forward = step.partition(UNFILLED, signature)
    garbage = itertools.count(1)

    def unfilled() -> torch.Tensor:
        made = step.gpu.allocate((COUNT,), (1,), FLOAT)
        return made if step.gpu.recording is not None else made.fill_(next(garbage))

    forward._function.__globals__["unfilled"] = unfilled
    for _ in range(6):
        a, b = step.fresh(), step.fresh()
        first, never = forward([a, b])
        assert torch.equal(first, a + b)
        assert (never.shape, never.dtype) == ((COUNT,), FLOAT)
    forward.refresh()
    assert forward.region.served == (4 if known else 0)
    assert ("differ" in forward.region.reason) is not known
    if known:  # neither is it copied: the only copy is of what the segment would be wasted for
        assert step.launched() == ["add", "copy"]
