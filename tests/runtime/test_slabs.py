"""Small saved activations in one piece of memory, what the caller sees in its own."""

from __future__ import annotations

import contextlib
from array import array
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.capture import observe as outputs
from pygraph_rt.inductor import uncompiled_graph
from pygraph_rt.inductor.graph_info import GraphInfo
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.memory import slabs
from pygraph_rt.memory.allocate import PythonAllocator, compiled
from pygraph_rt.options import Options
from pygraph_rt.plan.graph import SubGraph
from pygraph_rt.plan.memory_blocks import Block, extent
from pygraph_rt.plan.outputs import Fixed, Fresh, OfInput, OutputPlan, SlabGroup, Storage
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import COUNT, SoftwareGpu, install

pytestmark = pytest.mark.usefixtures("way_of_taking")

FLOAT, HALF = torch.float32, torch.float16
view = torch._C._dynamo.guards._reinterpret_tensor


def storage(elements: int, dtype: torch.dtype = FLOAT) -> Storage:
    return Storage((elements,), (1,), dtype, elements * dtype.itemsize, 0)


def plan_of(storages: list[Storage], whole: bool = True) -> OutputPlan:
    fresh = [Fresh(i, s.size, s.stride, 0, whole) for i, s in enumerate(storages)]
    return OutputPlan(tuple(storages), tuple(fresh))


def test_the_smallest_share_up_to_a_sixteenth_of_all_that_is_returned() -> None:
    plan = plan_of([storage(64 * 4), storage(64), storage(0), storage(64 * 2), storage(64 * 57)])
    # 256 and 512 bytes of 16 KiB; with the next one, of 1 KiB, it would be more.
    small, others = slabs.saved(plan, range(5))
    assert (small.storages, others.storages) == ({1, 3}, {0, 4})
    assert slabs.saved(plan, [0, 1])[0].storages == {1}
    assert slabs.saved(plan, [])[0].storages == frozenset()
    assert (small.saved, small.reuse) == (True, True)
    assert (others.saved, others.reuse) == (True, False)


def test_others_share_with_their_neighbours_up_to_a_64th_and_1_mib() -> None:
    plan = plan_of([storage(64 * 16)] * 200 + [storage(64 * 16 * 10)])
    found = slabs.slabs(plan.storages, range(201), slabs.saved(plan, range(201)))
    assert [slab.storages for slab in found[1:4]] == [(13, 14, 15), (16, 17, 18), (19, 20, 21)]
    assert all(slab.memory[0][0] * 4 <= 210 * 4096 // 64 for slab in found[1:])
    assert 200 not in {n for slab in found for n in slab.storages}
    plan = plan_of([storage(1 << 16)] * 1000 + [storage((1 << 17) + 1)] * 2)
    found = slabs.slabs(plan.storages, range(1002), slabs.saved(plan, range(1002)))
    small, others = ([slab for slab in found if slab.reuse is again] for again in (True, False))
    assert sum(len(slab.storages) for slab in small) in (60, 61, 62)
    assert {len(slab.storages) for slab in small} <= {4, 3, 2}
    assert {len(slab.storages) for slab in others} <= {4, 3, 2}
    assert max(slab.memory[0][0] * 4 for slab in found) == 1 << 20
    assert max(n for slab in others for n in slab.storages) == 999


def test_views_and_memory_that_is_returned_twice_do_not_share() -> None:
    sizes = [storage(64), storage(64), storage(64 * 100)]
    views, plan = plan_of(sizes, whole=False), plan_of(sizes)
    fixed = OutputPlan(plan.storages, (Fixed(3), *plan.outputs[1:]))
    for found, expected in [(plan, {0, 1}), (views, set()), (fixed, {1})]:
        assert slabs.saved(found, range(3))[0].storages == expected
        assert slabs.gradients(found)[0].storages == expected


def test_gradients_share_pieces_of_32_times_their_size_at_most() -> None:
    larger = [storage(8192)] * 9
    plan = plan_of(
        [storage(1024), storage(1025), storage(1), *[storage(768)] * 30, *larger, storage(8193)]
    )
    small, middle = slabs.gradients(plan)
    assert small.storages == frozenset(range(33)) - {1}
    assert middle.storages == frozenset(range(33, 42)) | {1}
    pieces = slabs.slabs(plan.storages, range(43), [small])
    assert [len(piece.storages) for piece in pieces] == [11, 10, 10]  # the last one stays alone
    for piece in pieces:
        assert piece.memory[0][0] * 4 <= 32 << 10
    pieces = slabs.slabs(plan.storages, range(43), [middle])
    assert [len(piece.storages) for piece in pieces] == [4, 4, 2]
    assert max(piece.memory[0][0] * 4 for piece in pieces) <= 128 << 10


sizes = st.tuples(
    st.lists(st.integers(0, 5), min_size=1, max_size=3), st.sampled_from([FLOAT, HALF])
)


@given(st.lists(sizes, max_size=12), st.sampled_from([512, 1 << 10, 1 << 20]))
def test_what_shares_a_slab_lies_apart_aligned_and_inside(
    requests: list[tuple[list[int], torch.dtype]], most: int
) -> None:
    found = []
    for size, dtype in requests:
        stride = torch.empty(size, device="meta").stride()
        nbytes = extent(size, stride, dtype.itemsize)
        found.append(Storage(tuple(size), tuple(stride), dtype, nbytes, 0))
    chosen = [i for i, s in enumerate(found) if s.nbytes]
    made = slabs.slabs(found, range(len(found)), [SlabGroup(frozenset(chosen), most)])
    numbers = [n for slab in made for n in slab.storages]
    assert len(set(numbers)) == len(numbers)
    assert set(numbers) <= set(chosen)
    if most >= 1 << 20:
        dtypes = [found[n].dtype for n in chosen]
        assert sorted(numbers) == [n for n in chosen if dtypes.count(found[n].dtype) > 1]
    for slab in made:
        (elements,), _, dtype = slab.memory
        assert len(slab.storages) > 1
        assert elements * dtype.itemsize <= most
        end = 0
        for number, offset, view in zip(slab.storages, slab.offsets, slab.views, strict=True):
            own = found[number]
            assert offset % 256 == 0
            assert offset >= end
            end = offset + own.nbytes
            assert view == (own.size, own.stride, offset // dtype.itemsize)
            assert own.dtype is dtype
        assert end <= elements * dtype.itemsize


FORWARD = """
def partition_0(args):
    a, b = args
    args.clear()
    seen = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", a, b, seen)
    first = empty_strided_cuda((64,), (1,), torch.float32)
    launch("halve", seen, first)
    second = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", first, b, second)
    third = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", first, second, third)
    return (seen, first, second, third)
"""
BACKWARD = """
def partition_0(args):
    first, second, tangent = args
    args.clear()
    launch("add", first, tangent, first)
    total = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", first, second, total)
    half = empty_strided_cuda((64,), (1,), torch.float32)
    launch("halve", total, half)
    return (total, view(first, (8, 8), (8, 1), 0), second, half)
"""


class Step:
    """A forward and a backward on a software GPU; three of the forward's results are saved."""

    def __init__(self, patch: pytest.MonkeyPatch, saved: set[int]) -> None:
        patch.setattr(slabs, "_SHARE", 1)
        self.gpu = SoftwareGpu()
        self.environment = install(patch, self.gpu)
        given = frozenset({0, 1})
        self.forward = self.partition(FORWARD, Signature(0, forward=True, saved=frozenset(saved)))
        signature = Signature(0, gradients=True, written=given, donated=given, released=given)
        self.backward = self.partition(BACKWARD, signature)

    def partition(self, body: str, signature: Signature) -> Partition:
        function = self.gpu.generated(body, view=view)
        region, options = Region("graph 0/0 partition 1 of 1"), Options(graphs="always")
        return Partition(function, region, options, self.environment, signature)

    def fresh(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), FLOAT).copy_(torch.randn(COUNT))

    def call(self) -> tuple[torch.Tensor, ...]:
        """A forward, its results compared with plain arithmetic."""
        a, b = self.fresh(), self.fresh()
        first = (a + b) * 0.5
        expected = (a + b, first, first + b, first + (first + b))
        results: tuple[torch.Tensor, ...] = self.forward([a, b])
        for result, value in zip(results, expected, strict=True):
            assert torch.equal(result, value)
        return results


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def test_saved_results_share_memory_and_the_others_own_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    step = Step(monkeypatch, {1, 2, 3})
    kept = [step.call() for _ in range(8)]
    copies = [[t.clone() for t in results] for results in kept]
    step.forward.refresh()
    assert step.forward.region.served == 6, step.forward.region.reason
    for seen, *saved in kept[3:]:
        assert seen.untyped_storage().nbytes() == seen.numel() * seen.element_size()
        assert len({address(t) for t in saved}) == 1
        assert address(seen) != address(saved[0])
    assert len({address(t) for results in kept[3:] for t in results}) == 2 * 5
    for results, copy in zip(kept, copies, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(results, copy, strict=True))


def test_a_result_alone_keeps_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(monkeypatch, {2})
    results = [step.call() for _ in range(5)][-1]
    assert len({address(t) for t in results}) == 4


def test_a_backward_reuses_memory_that_shares_a_slab(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(monkeypatch, {1, 2, 3})
    together: list[bool] = []
    place = 0
    for i in range(8):
        _, first, second, third = step.call()
        tangent = step.fresh()
        reused = first + tangent
        unread, still = third.clone(), second.clone()
        if i > 3:
            assert address(first) == place
        place = address(first)
        total, square, same, half = step.backward([first, second, tangent])
        assert torch.equal(total, reused + still)
        assert torch.equal(half, total * 0.5)
        together.append(address(half) == address(total))
        assert torch.equal(square.reshape(-1), reused)
        assert square.data_ptr() == first.data_ptr()
        assert same is second
        assert torch.equal(third, unread)
        del first, second, third, square, same
    step.backward.refresh()
    assert step.backward.region.served == 6, step.backward.region.reason
    assert together == [False] * 2 + [True] * 6


TURNS = FORWARD.replace("a, b = args", "n, a, b = args").replace(
    "    return", "    for _ in range(n):\n        launch('halve', third, third)\n    return"
)


class Turns:
    """A forward of a software GPU that is called with several sizes, and what it saved last."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.step = Step(patch, {1, 2, 3})
        signature = Signature(0, dynamic=True, forward=True, saved=frozenset({1, 2, 3}))
        self.partition = self.step.partition(TURNS, signature)
        self.places: dict[int, StorageWeakRef] = {}

    def call(self, n: int, shift: int = 0) -> None:
        a, b = self.step.fresh(), self.step.fresh()
        if shift:
            room = self.step.gpu.allocate((2 * COUNT,), (1,), FLOAT)
            a = room[shift : shift + COUNT].copy_(a)
        half = (a + b) * 0.5
        results = self.partition([n, a, b])
        assert torch.equal(results[3], (half + (half + b)) * 0.5**n)
        self.places[n + 100 * shift] = StorageWeakRef(results[1].untyped_storage())

    def alive(self) -> set[int]:
        """Whose last results have memory, although nobody has the results."""
        return {n for n, place in self.places.items() if not place.expired()}


@pytest.mark.parametrize("looked_up", [False, True])
def test_of_shapes_that_take_turns_the_last_one_keeps_memory(
    monkeypatch: pytest.MonkeyPatch, looked_up: bool
) -> None:
    turns = Turns(monkeypatch)
    for n in (1, 2, 3) * 3:
        turns.call(n)
    for n in (1, 2, 2, 3, 1, 1, 3):
        if looked_up:
            turns.partition._serving.current = None
        turns.call(n)
        assert turns.alive() == {n}
    turns.partition.refresh()
    assert (turns.partition.region.graphs, turns.partition.region.served) == (3, 7)


def test_of_alignments_that_take_turns_the_last_one_keeps_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch)
    for _ in range(4):
        for shift in (0, 4):
            turns.call(0, shift)
            assert len(turns.alive()) <= 1
    assert turns.alive() == {400}
    assert turns.partition.region.graphs == 2


def test_memory_is_not_kept_while_it_is_the_ordinary_paths_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch)
    for _ in range(5):
        turns.call(1)
    assert turns.alive() == {1}
    turns.partition.use(graphs=False)
    assert turns.alive() == set()
    turns.partition.use(graphs=True)
    turns.call(1)
    assert turns.alive() == {1}


def test_memory_is_not_kept_when_there_is_none_for_the_arena(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns = Turns(monkeypatch)
    for _ in range(5):
        turns.call(1)
    replay = turns.partition.replay
    assert replay is not None
    place = turns.places[1]

    def no_memory(*size: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("no memory")

    replay._launcher.allocate = no_memory
    turns.call(1)
    assert place.expired()
    assert turns.partition.region.state == "serving"


def memory(again: bool = True, taken: list[Any] | None = None) -> slabs.SlabMemory:
    """Of two outputs; notes in `taken` what it asks for."""
    taken = [] if taken is None else taken
    allocate = torch._C._dynamo.guards._empty_strided_cpu
    plan = plan_of([storage(64), storage(64), storage(64 * 100)])
    (slab,) = slabs.slabs(plan.storages, [0, 1], slabs.saved(plan, [0, 1])[:1])
    slab = slab._replace(reuse=again)
    return slabs.SlabMemory(slab, lambda *asked: taken.append(asked) or allocate(*asked), view)


def served(made: slabs.SlabMemory, stream: int = 7) -> list[torch.Tensor]:
    """The outputs of one call."""
    addresses = made.allocate(stream)
    outputs = made.outputs()
    assert [t.data_ptr() for t in outputs] == addresses
    return [*outputs]


class Saving(torch.autograd.Function):
    """Has a tensor for its backward, as the compiled forward's function has."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, tensors: list[torch.Tensor]) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        assert len(ctx.saved_tensors) == 2
        return gradient, None


def save(tensors: list[torch.Tensor]) -> Any:
    """A loss whose backward has not run."""
    return Saving.apply(torch.ones(1, requires_grad=True), tensors)


OWNERS = {
    "nobody": lambda tensors: None,
    "a tensor": lambda tensors: tensors[1],
    "a view": lambda tensors: tensors[0].view(8, 8),
    "a detached one": lambda tensors: tensors[1].detach(),
    "its memory": lambda tensors: tensors[0].untyped_storage(),
    "a slice of its memory in another type": lambda tensors: tensors[0].view(torch.int32)[3:],
    "a capsule": lambda tensors: tensors[1].__dlpack__(),
    "a backward": save,
    "an array": lambda tensors: tensors[0].numpy(),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_saved_memory_serves_again_only_when_nobody_has_it(owner: str) -> None:
    made = memory()
    tensors = served(made)
    place = tensors[0].data_ptr()
    held = OWNERS[owner](tensors)
    del tensors
    again = served(made)
    assert (again[0].data_ptr() == place) == (held is None)
    if held is None:
        return
    place = again[0].data_ptr()
    del held, again
    assert served(made)[0].data_ptr() == place  # from then on the new one serves


def test_what_a_backward_has_done_with_serves_again() -> None:
    made = memory()
    tensors = served(made)
    loss, place = save(tensors), tensors[0].data_ptr()
    del tensors
    loss.backward()
    assert served(made)[0].data_ptr() == place


def test_memory_of_another_stream_or_behind_hooks_does_not_serve_again() -> None:
    taken: list[Any] = []
    made = memory(taken=taken)
    served(made)
    served(made)
    assert len(taken) == 1
    held = served(made, stream=8)
    assert len(taken) == 2
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        hooked = served(made, stream=8)
    assert {t.untyped_storage().nbytes() for t in hooked} == {256}
    assert not {t.data_ptr() for t in hooked} & {t.data_ptr() for t in held}
    del held
    kept = hooked[0].data_ptr(), hooked  # alive, so that the next one cannot be given its place
    assert served(made, stream=8)[0].data_ptr() != kept[0]
    assert made._owners


def test_gradients_get_new_memory_in_each_call() -> None:
    made = memory(again=False)
    tensors = served(made)
    assert made._outputs == []
    assert made._base is None
    assert tensors[0].untyped_storage().nbytes() == 512


def test_a_launch_that_failed_leaves_nothing_behind() -> None:
    made = memory()
    made.allocate(7)
    place = made.allocate(7)  # the call before had no outputs
    tensors = made.outputs()
    assert [t.data_ptr() for t in tensors] == place
    made.forget()
    assert made._storage is None
    assert torch.equal(tensors[0].fill_(1.0), torch.ones(64))


HOLDS = st.sampled_from(sorted(OWNERS))
STEPS = st.lists(
    st.tuples(st.sampled_from(["call", "call", "other stream", "hooks"]), HOLDS, st.booleans()),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_what_somebody_has_is_never_handed_out_again(
    steps: list[tuple[str, str, bool]], random: Any
) -> None:
    made = memory()
    held: list[tuple[Any, list[tuple[int, int]]]] = []
    for kind, owner, lets_go in steps:
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)
        with hooks if kind == "hooks" else contextlib.nullcontext():
            tensors = served(made, stream=8 if kind == "other stream" else 7)
        spans = [(t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors]
        for _, others in held:
            assert all(end <= a or b <= start for start, end in spans for a, b in others)
        share = OWNERS[owner](tensors)
        if share is not None:  # of memory behind hooks, which is not shared, all of it
            held.append(([share, *(tensors if kind == "hooks" else [])], spans))
        del tensors, share
        if lets_go and held:
            held.pop(random.randrange(len(held)))


def test_a_view_is_told_by_its_place_only_in_memory_that_was_donated() -> None:
    base = torch.zeros(16)
    args = [base[:8], base[8:], torch.zeros(4)]
    inside = view(args[1], (2, 2), (2, 1), 4)
    known = outputs._of_input(inside, outputs.weak_inputs(args), {0, 1})
    assert known == OfInput(1, False, (2, 2), (2, 1), 4)
    for donated, result in [(set(), inside), ({0}, inside), ({0, 1}, base[6:10])]:
        with pytest.raises(outputs.Unprovable, match="cannot be told"):
            outputs._of_input(result, outputs.weak_inputs(args), donated)


class Residual(torch.nn.Module):
    """Two results that the caller sees, a buffer that is written, activations to save."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls.add_(1)
        y = torch.tanh(self.layer(x)).sin()
        return y, y.exp().sum()


def test_what_a_forward_saves_comes_after_all_that_its_caller_gets() -> None:
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    found: list[tuple[Any, list[str]]] = []

    def inner(graph: Any, inputs: Any, **kwargs: Any) -> Any:
        (results,) = next(n for n in graph.graph.nodes if n.op == "output").args
        found.append(
            (
                uncompiled_graph.describe(graph, [], kwargs, GraphInfo("g", "")),
                [str(node) for node in results],
            )
        )
        return compile_fx_inner(graph, inputs, **kwargs)

    def backend(gm: Any, inputs: Any) -> Any:
        return compile_fx(gm, inputs, inner_compile=inner)

    torch._dynamo.reset()
    with torch._functorch.config.patch(enable_autograd_cache=False):
        model = torch.compile(Residual(), backend=backend)
        y, total = model(torch.randn(2, 4, requires_grad=True))
        total.backward()
    (forward, results), (backward, _) = found
    assert [name.split("_")[0] for name in results[:2]] == ["sin", "sum"]
    assert forward.saved == frozenset(range(2, len(results)))
    assert len(results) > 3
    assert backward.saved == frozenset()


def test_small_segments_are_kept_up_to_a_32nd_of_a_calls_memory() -> None:
    mib = 1 << 20
    sizes = {Block("pool", 0): 60 * mib, Block("pool", 1): mib // 4, Block("pool", 2): 3 * mib}
    one, part = [SubGraph(range(3), tuple(sizes), ())], SubGraph(range(1), (), ())
    assert set(slabs.kept_segments(one, sizes, 0)) == {Block("pool", 1)}
    assert slabs.kept_segments([*one, part], sizes, 0) == {}
    for nbytes, others, kept in ((64 << 10, 0, 1), (65 << 10, 0, 0), (65 << 10, 4 * mib, 1)):
        assert len(slabs.kept_segments(one, {Block("pool", 0): nbytes}, others)) == kept
    # Never more than torch takes from the segments for small memory.
    assert slabs.kept_segments(one, {Block("pool", 0): mib + 512}, 100 * mib) == {}


@pytest.mark.parametrize("native", [False, True])
def test_a_kept_segment_stays_where_it_is(native: bool, memory_module: Any) -> None:
    empty = torch._C._dynamo.guards._empty_strided_cpu
    (slab,) = slabs.kept_segments(
        [SubGraph(range(1), (Block("pool", 0),), ())], {Block("pool", 0): 4096}, 0
    ).values()
    addresses = array("Q", [0, 0])
    python = PythonAllocator([storage(8)], [], [slabs.SlabMemory(slab, empty, view)], addresses, 0)
    made = compiled(python, memory_module, empty) if native else python
    seen, held = [], []
    for stream in (7, 7, 7, 8, 8):
        held += made.allocate(stream, empty)[0]
        assert made.outputs() == []
        held.append(torch.empty(4096, dtype=torch.uint8))  # would take its place
        seen.append(addresses[1])
    assert seen[0] == seen[1] == seen[2]
    assert seen[3] == seen[4]
    made.forget()
    assert made.allocate(8, empty)[1] == []
