"""Allocator memory in Python and in compiled code: the same tensors at the same places."""

from __future__ import annotations

import gc
import resource
import sys
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.memory import allocate as taking
from pygraph_rt.memory import slabs
from pygraph_rt.memory.allocate import Allocator, NativeAllocator, PythonAllocator
from pygraph_rt.memory.slabs import SlabMemory
from pygraph_rt.plan.memory_blocks import Block, extent
from pygraph_rt.plan.outputs import Slab, SlabGroup, Storage

guards = torch._C._dynamo.guards
EMPTY, VIEW = guards._empty_strided_cpu, guards._reinterpret_tensor
DTYPES = [torch.float32, torch.bfloat16, torch.uint8, torch.complex64, torch.bool]
TOO_LARGE = ((1 << 56,), (1,), torch.uint8)
LAYOUT = ((1,), (1,), torch.float32, torch.device("cpu"))


def storage(size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Storage:
    stride = torch.empty(size, device="meta").stride()
    return Storage(size, stride, dtype, extent(size, stride, dtype.itemsize), 0)


def slab(
    storages: list[Storage], saved: bool = False, again: bool = False, kept: bool = False
) -> Slab:
    """One piece of memory for all of them, which have one dtype."""
    made = slabs._slab(
        storages[0].dtype,
        storages,
        list(range(len(storages))),
        SlabGroup(frozenset(), 1 << 20, saved, again),
    )
    return made._replace(blocks=(Block("pool", 0),), offsets=(0,)) if kept else made


class Both:
    """The two ways over the same plan, each with its own slabs and addresses."""

    def __init__(
        self,
        module: Any,
        made: list[Storage],
        segments: list[int],
        shared: list[Slab],
        allocate: Callable[..., torch.Tensor] = EMPTY,
        first: int = 0,
    ) -> None:
        count = first + len(made) + len(segments) + sum(len(s.blocks) for s in shared)
        self.addresses = [array("Q", [7] * (count + 2)) for _ in range(2)]
        python = [
            PythonAllocator(
                made, segments, [SlabMemory(s, allocate, VIEW) for s in shared], where, first
            )
            for where in self.addresses
        ]
        self.ways: list[Allocator] = [python[0], NativeAllocator(python[1], module, allocate)]
        self.allocate = allocate


def facts(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What a caller can see of new memory, but for where it is."""
    return (
        type(tensor),
        tensor.size(),
        tensor.stride(),
        tensor.dtype,
        tensor.storage_offset(),
        tensor.untyped_storage().nbytes(),
        tensor._is_view(),
        tensor._base,
        None if tensor.is_inference() else tensor._version,
        tensor.is_inference(),
        tensor.requires_grad,
        tensor.is_leaf,
        tensor._use_count(),
    )


def places(addresses: array[int], tensors: list[torch.Tensor]) -> list[Any]:
    """Each address as the tensors it lies in and the distance from where their storage begins."""
    found: list[Any] = []
    for address in addresses:
        inside = [
            (i, address - t.untyped_storage().data_ptr())
            for i, t in enumerate(tensors)
            if t.untyped_storage().nbytes()
            and 0 <= address - t.untyped_storage().data_ptr() < max(t.untyped_storage().nbytes(), 1)
        ]
        found.append(inside or ("elsewhere" if address else 0))
    return found


def shared_storage(tensors: list[torch.Tensor]) -> list[int]:
    """For each tensor, the first one with the same storage."""
    seen: dict[int, int] = {}
    return [seen.setdefault(t.untyped_storage()._cdata, i) for i, t in enumerate(tensors)]


shapes = st.lists(st.integers(0, 5), max_size=3).map(tuple)
storages = st.builds(storage, shapes, st.sampled_from(DTYPES))


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[Storage], list[int], list[Slab]]:
    """Outputs, segments, and slabs of every kind in any order."""
    made = draw(st.lists(storages, max_size=5))
    segments = draw(st.lists(st.integers(1, 5000), max_size=3))
    shared = []
    for _ in range(draw(st.integers(0, 5))):
        dtype = draw(st.sampled_from(DTYPES))
        full = st.lists(st.integers(1, 5), max_size=3).map(tuple)
        inside = [storage(size, dtype) for size in draw(st.lists(full, min_size=1, max_size=4))]
        again, kept = draw(st.sampled_from([(False, False), (True, False), (False, True)]))
        shared.append(slab(inside, again or draw(st.booleans()), again, kept))
    return made, segments, shared


@settings(max_examples=150, deadline=None)
@given(
    plan=plans(),
    own_segment=st.sampled_from([1, 512, 1 << 20]),
    hooks=st.lists(st.booleans(), min_size=3, max_size=3),
    mode=st.sampled_from([torch.enable_grad, torch.no_grad, torch.inference_mode]),
    first=st.integers(0, 2),
)
def test_both_ways_take_the_same(
    memory_module: Any, plan: Any, own_segment: int, hooks: list[bool], mode: Any, first: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, mode():
        patch.setattr(taking, "OWN_SEGMENT", own_segment)
        both = Both(memory_module, *plan, first=first)
        for hooked in hooks:
            patch.setattr(taking, "hooked", lambda hooked=hooked: hooked)
            patch.setattr(slabs, "hooked", lambda hooked=hooked: hooked)
            seen = []
            for way, addresses in zip(both.ways, both.addresses, strict=True):
                own, segments = way.allocate(7, EMPTY)
                inside = way.outputs()
                every = [*own, *segments, *inside]
                assert [*addresses[:first], *addresses[-2:]] == [7] * (first + 2)
                at = array("Q", addresses[first:-2])
                assert at.tolist()[: len(own) + len(segments)] == [
                    t.data_ptr() for t in (*own, *segments)
                ]
                at = places(at, every)
                assert hooked or "elsewhere" not in at
                counts = (len(own), len(segments))
                seen.append((counts, at, shared_storage(every), [*map(facts, every)]))
            assert seen[0] == seen[1]


def test_memory_is_asked_for_in_the_same_order(memory_module: Any) -> None:
    asked: list[Any] = []

    def allocate(*memory: Any) -> torch.Tensor:
        asked.append(memory)
        return EMPTY(*memory)

    pair = [storage((4,)), storage((5,))]
    shared = [
        slab(pair),
        slab([storage((6,))] * 2, saved=True, again=True),
        slab([storage((7,))] * 2),
        slab([storage((3 << 20,))] * 2, kept=True),
        slab([storage((9,))] * 3),
    ]
    made = [storage((3,)), storage((1 << 20, 8)), storage((2,), torch.bool)]
    both = Both(memory_module, made, [64, 40 << 20], shared, allocate)
    orders = []
    for way in both.ways:
        asked.clear()
        way.allocate(7, allocate)
        orders.append([*asked])
    assert orders[0] == orders[1]
    # 40, 32 and 24 MiB, then what shares torch's segments.
    large = [(40 << 20,), (1 << 20, 8), (6 << 20,)]
    assert [size for size, _, _ in orders[0][:6]] == [*large, (3,), (2,), (64,)]
    assert len(orders[0]) == 10


@pytest.mark.parametrize("way", [0, 1], ids=["python", "compiled"])
@pytest.mark.parametrize("owner", ["nobody", "a tensor", "a view", "a storage", "C++"])
def test_memory_serves_again_when_nobody_has_it(memory_module: Any, way: int, owner: str) -> None:
    shared = [slab([storage((4,))] * 2, saved=True, again=True), slab([storage((4,))] * 2)]
    taking = Both(memory_module, [], [], shared).ways[way]
    held: list[Any] = []
    for _ in range(3):
        taking.allocate(7, EMPTY)
        first, second, *others = taking.outputs()
        place = [first.data_ptr(), second.data_ptr()]
        held.append(others)
        if owner == "a tensor":
            held.append(second)
        elif owner == "a view":
            held.append(second[1:])
        elif owner == "a storage":
            held.append(first.untyped_storage())
        elif owner == "C++":
            held.append(torch.ones(4, requires_grad=True) * first)  # saved for a backward
        del first, second, others
        taking.allocate(7, EMPTY)
        again = [t.data_ptr() for t in taking.outputs()[:2]]
        assert (again == place) == (owner == "nobody")
        held.clear()
    taking.allocate(7, EMPTY)
    place = [t.data_ptr() for t in taking.outputs()[:2]]
    blocker = EMPTY((8,), (1,), torch.float32)
    taking.allocate(8, EMPTY)  # another stream
    other = taking.outputs()
    assert blocker.data_ptr() not in place
    weak = torch.multiprocessing.reductions.StorageWeakRef(other[0].untyped_storage())
    del other
    assert not weak.expired()
    taking.forget()
    assert weak.expired()


def test_memory_of_python_is_let_go_of_when_the_helper_comes(memory_module: Any) -> None:
    python = Both(memory_module, [], [], [slab([storage((4,))] * 2, True, True)]).ways[0]
    assert isinstance(python, PythonAllocator)
    python.allocate(7, EMPTY)
    weak = torch.multiprocessing.reductions.StorageWeakRef(python.outputs()[0].untyped_storage())
    assert not weak.expired()
    NativeAllocator(python, memory_module, EMPTY)
    assert weak.expired()


def test_the_allocator_of_torchs_own_function_is_used_without_a_call(memory_module: Any) -> None:
    both = Both(memory_module, [storage((3,))], [], [slab([storage((4,))] * 2)])

    def allocate(*memory: Any) -> torch.Tensor:
        raise AssertionError("called")

    both.ways[1].allocate(7, EMPTY)
    with pytest.raises(AssertionError, match="called"):
        both.ways[1].allocate(7, allocate)


@pytest.mark.parametrize("way", [0, 1], ids=["python", "compiled"])
@pytest.mark.parametrize("at", range(8))
def test_running_out_of_memory_leaves_nothing_held(memory_module: Any, way: int, at: int) -> None:
    """Not even while the error is held."""
    taken: list[Any] = []

    def allocate(*memory: Any) -> torch.Tensor:
        if len(taken) == at:
            raise torch.OutOfMemoryError("no memory")
        made = EMPTY(*memory)
        taken.append(torch.multiprocessing.reductions.StorageWeakRef(made.untyped_storage()))
        return made

    shared = [
        slab([storage((4,))] * 2),
        slab([storage((6,))] * 2, saved=True, again=True),
        slab([storage((7,))] * 2, saved=True),
        slab([storage((8,))] * 2, kept=True),
        slab([storage((9,))] * 3),
    ]
    both = Both(memory_module, [storage((3,)), storage((2,))], [64], shared, allocate)
    with pytest.raises(torch.OutOfMemoryError) as error:
        both.ways[way].allocate(7, allocate)
    assert error.tb is not None
    assert len(taken) == at
    assert all(weak.expired() for weak in taken)
    taken.clear()
    at = -1
    own, segments = both.ways[way].allocate(7, allocate)
    assert [len(own), len(segments), len(both.ways[way].outputs())] == [2, 1, 11]


def test_an_allocators_error_comes_out_and_the_addresses_stay(memory_module: Any) -> None:
    plan = memory_module.Plan(
        EMPTY((0,), (1,), torch.uint8),
        (((4,), (1,), torch.float32), TOO_LARGE),
        0,
        (),
        (0, 1),
    )
    addresses = array("Q", [3, 4])
    with pytest.raises(RuntimeError, match="allocate"):
        plan.take(addresses, None, 7)
    assert addresses.tolist() == [3, 4]


def test_an_allocator_that_fails_in_the_middle_leaves_nothing_held(memory_module: Any) -> None:
    """256 MiB are mapped for a piece, and for a slab, before each failure."""
    large = ((256 << 20,), (1,), torch.uint8)
    addresses = array("Q", [0] * 3)
    statm, page = Path("/proc/self/statm"), resource.getpagesize()
    if not statm.exists():
        pytest.skip("this system does not tell how much memory is mapped")
    specimen = EMPTY((0,), (1,), torch.uint8)
    slab_last = memory_module.Plan(
        specimen,
        (large,),
        0,
        ((large, (0,), (), False), (TOO_LARGE, (0,), (), False)),
        (0, 1, 2),
    )
    piece_last = memory_module.Plan(
        specimen, (TOO_LARGE, large), 0, ((large, (0,), (), False),), (2, 1, 0)
    )
    before = int(statm.read_text().split()[0])
    for plan in (slab_last, piece_last):
        for _ in range(10):
            with pytest.raises(RuntimeError, match="allocate"):
                plan.take(addresses, None, 7)
    assert (int(statm.read_text().split()[0]) - before) * page < 256 << 20


@pytest.mark.parametrize("way", [0, 1], ids=["python", "compiled"])
def test_outputs_alone_hold_their_memory(memory_module: Any, way: int) -> None:
    shared = [slab([storage((4,))] * 2), slab([storage((8,))] * 2, kept=True), slab([storage(())])]
    both = Both(memory_module, [storage((3,))], [64], shared)
    own, segments = both.ways[way].allocate(7, EMPTY)
    every = [*own, *segments, *both.ways[way].outputs()]
    weak = [torch.multiprocessing.reductions.StorageWeakRef(t.untyped_storage()) for t in every]
    assert not any(w.expired() for w in weak)
    del own, segments, every
    assert all(w.expired() for w in weak)


@pytest.mark.parametrize("way", [0, 1], ids=["python", "compiled"])
def test_what_is_forgotten_is_freed(memory_module: Any, way: int) -> None:
    taken: list[Any] = []

    def allocate(*memory: Any) -> torch.Tensor:
        made = EMPTY(*memory)
        taken.append(torch.multiprocessing.reductions.StorageWeakRef(made.untyped_storage()))
        return made

    shared = [slab([storage((4,))] * 2), slab([storage((8,))] * 2, kept=True), slab([storage(())])]
    both = Both(memory_module, [], [], shared, allocate)
    both.ways[way].allocate(7, allocate)
    assert [weak.expired() for weak in taken] == [False] * 3
    both.ways[way].forget()
    assert [weak.expired() for weak in taken] == [True] * 3


def test_a_thousand_calls_leave_nothing_behind(memory_module: Any) -> None:
    made = [storage((3,)), storage((2,))]
    both = Both(memory_module, made, [64], [slab([storage((4,))] * 2), slab([storage((4,))])])
    way = both.ways[1]
    watched = [made[0].size, made[0].stride, torch.float32, both.addresses[1], EMPTY]

    def counts() -> list[int]:
        gc.collect()
        references = map(sys.getrefcount, watched)
        return [*references, len(gc.get_objects()), sys.getallocatedblocks()]

    def fail(*memory: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("no memory")

    def call() -> None:
        way.allocate(7, EMPTY)
        way.outputs()
        with pytest.raises(torch.OutOfMemoryError):
            way.allocate(7, fail)

    call()
    before = counts()
    for _ in range(1000):
        call()
    grown = [now - then for now, then in zip(counts(), before, strict=True)]
    assert max(grown) < 500


def test_a_plan_lets_go_of_all_it_has(memory_module: Any) -> None:
    asked = ((4,), (1,), torch.float32)
    views = (((2,), (1,), 0),)
    addresses = array("Q", [0] * 2)
    before = [sys.getrefcount(asked), sys.getrefcount(memory_module.Plan)]
    for _ in range(100):
        plan = memory_module.Plan(
            EMPTY((0,), (1,), torch.uint8), (asked,), 0, ((asked, (0,), views, False),), (1, 0)
        )
        (own,) = plan.take(addresses, None, 7)
        weak = torch.multiprocessing.reductions.StorageWeakRef(own.untyped_storage())
        del plan, own
        assert weak.expired()
    assert [sys.getrefcount(asked), sys.getrefcount(memory_module.Plan)] == before


ASKED = ((4,), (1,), torch.float32)


@pytest.mark.parametrize(
    "wrong",
    [
        (None, [], 0, (), ()),
        (3, (), 0, (), ()),
        (None, (), -1, (), ()),
        (None, (), 0, (), 0),
        (None, (ASKED,), 0, (), ()),
        (None, (ASKED,), 0, (), (1,)),
        (None, (ASKED,), 0, (), (-1,)),
        (None, (ASKED,), 0, (), (0, 0)),
        (None, (ASKED, ASKED), 0, (), (0, 0)),
        (None, ((ASKED,),), 0, (), (0,)),
        (None, (((4,), (1,), "float32"),), 0, (), (0,)),
        (None, (((4.0,), (1,), torch.float32),), 0, (), (0,)),
        (None, (((1 << 70,), (1,), torch.float32),), 0, (), (0,)),
        (None, (), 0, ((ASKED, (0,), (((4,), (1,)),), False),), (0,)),
    ],
)
def test_a_plan_of_another_form_is_refused(memory_module: Any, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError, OverflowError)):
        memory_module.Plan(*wrong)


def test_a_call_of_another_form_is_refused(memory_module: Any) -> None:
    plan = memory_module.Plan(None, (ASKED,), 1, (), (0,))
    with pytest.raises(ValueError, match="places"):
        plan.take(array("Q", [0]), EMPTY, 7)
    with pytest.raises(TypeError, match="allocator"):
        plan.take(array("Q", [0, 0]), None, 7)
    with pytest.raises(TypeError, match="tensors"):
        plan.take(array("Q", [0, 0]), lambda *memory: 3, 7)
    with pytest.raises(BufferError):
        plan.take(bytes(16), EMPTY, 7)
    empty = memory_module.Plan(None, (), 0, ((ASKED, (0,), (), False),), (0,))
    with pytest.raises(ValueError, match="first"):
        empty.outputs()


def aligned(residue: int) -> torch.Tensor:
    """A float whose address is `residue` more than a multiple of 256."""
    room = torch.zeros(256)
    start = (residue - room.data_ptr()) % 256 // 4
    return room[start : start + 1]


def test_views_of_both_lists(memory_module: Any) -> None:
    views = ((1, 0, (2,), (1,), 3), (0, 1, (), (), 0), (1, 0, (2, 2), (2, 1), 1))
    make = memory_module.Views(views)
    first, second = [torch.arange(3.0), torch.arange(5.0)], [torch.arange(9)]
    found = make(first, second)
    sources = (first, second)
    expected = [VIEW(sources[source][place], *view) for source, place, *view in views]
    assert [*map(facts, found)] == [*map(facts, expected)]
    assert all(map(torch.equal, found, expected))
    assert shared_storage([*second, *found]) == [0, 0, 2, 0]
    assert memory_module.Views(())(first, second) == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Inputs", ([],)),
        ("Inputs", (((-1, 0, 64, LAYOUT),),)),
        ("Inputs", (((0, -1, 64, LAYOUT),),)),
        ("Inputs", (((0, 0, 64),),)),
        ("Inputs", (((0, 0, 64, ((1,), (), torch.float32, torch.device("cpu"))),),)),
        ("Inputs", (((0, 0, 64, ((1,), (1,), torch.float32, "cpu")),),)),
        ("Views", ([],)),
        ("Views", (((2, 0, (), (), 0),),)),
        ("Views", (((0, -1, (), (), 0),),)),
        ("Views", (((0, 0, (), ()),),)),
    ],
)
def test_inputs_and_views_of_another_form_are_refused(
    memory_module: Any, name: str, wrong: Any
) -> None:
    with pytest.raises((TypeError, ValueError)):
        getattr(memory_module, name)(*wrong)


def test_arguments_of_another_form_are_refused(memory_module: Any) -> None:
    follow, addresses = memory_module.Inputs(((1, 1, 64, LAYOUT),)), array("Q", [3, 3])
    tensor = aligned(64)
    with pytest.raises(IndexError):
        follow([tensor], addresses)
    with pytest.raises(TypeError):
        follow([tensor, None], addresses)
    with pytest.raises(TypeError):
        follow((tensor, tensor), addresses)
    with pytest.raises(ValueError, match="places"):
        follow([tensor, tensor], array("Q", [3]))
    assert addresses.tolist() == [3, 3]
    assert follow([tensor, tensor], addresses)
    make = memory_module.Views(((1, 1, (), (), 0),))
    with pytest.raises(IndexError):
        make([tensor, tensor], [tensor])
    with pytest.raises(TypeError):
        make([], [tensor, 3])


def test_inputs_and_views_hold_nothing(memory_module: Any) -> None:
    follow, make = (
        memory_module.Inputs(((0, 0, 64, LAYOUT),)),
        memory_module.Views(((0, 0, (), (), 0),)),
    )
    tensor, addresses = aligned(64), array("Q", [0])
    watched = [tensor, addresses, memory_module.Inputs, memory_module.Views]
    before = [*map(sys.getrefcount, watched), tensor._use_count()]
    for _ in range(100):
        follow([tensor], addresses)
        make([tensor], [])
        memory_module.Inputs(((0, 0, 64, LAYOUT),))
        memory_module.Views(((0, 0, (), (), 0),))
    assert [*map(sys.getrefcount, watched), tensor._use_count()] == before
