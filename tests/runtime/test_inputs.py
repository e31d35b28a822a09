"""Following where inputs are, in Python and in compiled code: the same addresses are written."""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.inductor import torch_support
from pygraph_rt.plan.memory_blocks import alignment_class
from pygraph_rt.plan.replay_plan import TensorLayout
from pygraph_rt.replay.inputs import Input, InputAddresses
from pygraph_rt.replay.platform import same_addresses

Items = tuple[tuple[int, int, int], ...]
Follow = Callable[[list[Any], array], bool]
Make = Callable[[Items, array], Follow]


LAYOUT = TensorLayout((1,), (1,), torch.float32, torch.device("cpu"))


def in_python(inputs: list[Input], addresses: array[int], way: str) -> Follow:
    guard_of = None if "without" in way else torch_support.guard_of()
    platform: Any = SimpleNamespace(same_addresses=same_addresses, guard_of=guard_of)
    still = [item.argument for item in inputs] if "stayed" in way else []
    return InputAddresses(inputs, still, addresses, platform).follow


WAYS = ["Python", "Python, stayed so far", "Python without guards", "compiled code"]


@pytest.fixture(params=WAYS)
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "compiled code":
        module = request.getfixturevalue("memory_module")
        return lambda items, addresses: module.Inputs(tuple((*i, LAYOUT) for i in items))
    return lambda items, addresses: in_python(
        [Input(*item, LAYOUT) for item in items], addresses, request.param
    )


@pytest.fixture(params=WAYS)
def make_laid_out(request: pytest.FixtureRequest) -> Callable[[torch.Tensor, array], Follow]:
    """What follows one input, laid out as a tensor is, whose place among the addresses is 0."""

    def made(usual: torch.Tensor, addresses: array[int]) -> Follow:
        layout = TensorLayout(usual.shape, usual.stride(), usual.dtype, usual.device)
        item = (0, 0, alignment_class(usual.data_ptr()), layout)
        if request.param == "compiled code":
            follow: Follow = request.getfixturevalue("memory_module").Inputs((item,))
            return follow
        return in_python([Input(*item)], addresses, request.param)

    return made


def aligned(residue: int) -> torch.Tensor:
    """A float whose address is `residue` more than a multiple of 256."""
    room = torch.zeros(256)
    start = (residue - room.data_ptr()) % 256 // 4
    return room[start : start + 1]


def test_inputs_that_moved_are_written_and_others_are_not(make: Make) -> None:
    addresses = array("Q", [7, 7, 7, 7])
    follow = make(((1, 2, 256), (3, 0, 64)), addresses)
    first, second = aligned(0), aligned(64)
    assert follow([None, first, None, second], addresses) is True
    assert addresses.tolist() == [second.data_ptr(), 7, first.data_ptr(), 7]
    addresses[0] = addresses[2] = 5  # only what moved is written
    assert follow([None, first, None, second], addresses)
    assert addresses.tolist() == [5, 7, 5, 7]
    moved = aligned(64)
    assert follow([None, first, None, moved], addresses)
    assert addresses.tolist() == [moved.data_ptr(), 7, 5, 7]
    parameter = torch.nn.Parameter(aligned(0))
    assert follow([None, parameter, None, moved], addresses)
    assert addresses[2] == parameter.data_ptr()


def test_after_an_input_that_is_aligned_otherwise_nothing_is_stale(make: Make) -> None:
    addresses = array("Q", [0, 0])
    follow = make(((0, 0, 256), (1, 1, 64)), addresses)
    first, second = aligned(0), aligned(64)
    assert follow([first, second], addresses)
    before, other = addresses.tolist(), aligned(0)
    assert follow([other, aligned(32)], addresses) is False
    assert follow([other, aligned(128)], addresses) is False
    assert addresses.tolist() == before
    assert follow([other, second], addresses)
    assert addresses.tolist() == [other.data_ptr(), second.data_ptr()]


def laid_out(size: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    """A view of one memory, which does not move."""
    return ROOM.as_strided(size, stride)


ROOM = aligned(0).new_zeros(256)


@pytest.mark.parametrize(
    ("size", "stride", "expected"),
    [
        ((4, 1, 4), (4, 4, 1), True),
        ((4, 1, 4), (4, 7, 1), True),  # there is one element along it
        ((4, 1, 4), (1, 4, 4), False),
        ((4, 1, 3), (4, 4, 1), False),
        ((4, 4), (4, 1), False),
        ((4, 4, 1), (4, 1, 1), False),
    ],
)
def test_an_input_that_is_laid_out_otherwise_is_not_followed(
    make_laid_out: Callable[[torch.Tensor, array], Follow],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    expected: bool,
) -> None:
    """As where `data` of a weight is assigned: its address may be the same."""
    usual, addresses = laid_out((4, 1, 4), (4, 4, 1)), array("Q", [5])
    follow = make_laid_out(usual, addresses)
    assert follow([usual], addresses) is True
    addresses[0] = 5
    assert follow([laid_out(size, stride)], addresses) is expected
    assert addresses[0] == 5
    assert follow([usual], addresses) is True
    other = torch.zeros(512)
    moved = other[(ROOM.data_ptr() - other.data_ptr()) % 256 // 4 :].as_strided(size, stride)
    assert follow([moved], addresses) is expected
    assert addresses[0] == (moved.data_ptr() if expected else 5)


@pytest.mark.parametrize(
    "other",
    [
        torch.Tensor.conj,
        torch._neg_view,
        torch.Tensor.to_sparse,
        lambda usual: usual.to("meta"),
        lambda usual: usual.view(torch.float64),
        lambda usual: usual.view(torch.float32)[:4],
    ],
    ids=["conjugate", "negative", "sparse", "elsewhere", "another dtype", "real"],
)
def test_an_input_whose_memory_means_something_else_is_not_followed(
    make_laid_out: Callable[[torch.Tensor, array], Follow], other: Callable[..., torch.Tensor]
) -> None:
    usual = ROOM[:8].view(torch.complex64)
    addresses = array("Q", [0])
    follow = make_laid_out(usual, addresses)
    assert follow([usual], addresses)
    assert not follow([other(usual)], addresses)
    assert follow([usual.conj().conj()], addresses)


def test_a_guard_is_made_of_what_fitted_and_holds_no_tensor() -> None:
    """One call looks at each input, the next ones at all in one call of C++."""
    tensors = [torch.zeros(3, 4), torch.zeros(2, dtype=torch.int64)]
    layouts = [TensorLayout(x.shape, x.stride(), x.dtype, x.device) for x in tensors]
    inputs = [
        Input(number, number, alignment_class(x.data_ptr()), layout)
        for number, (x, layout) in enumerate(zip(tensors, layouts, strict=True))
    ]
    made: list[int] = []
    guard_of = torch_support.guard_of()
    assert guard_of is not None

    def counted(given: list[Any]) -> Callable[..., bool]:
        made.append(len(given))
        return guard_of(given)

    platform: Any = SimpleNamespace(same_addresses=same_addresses, guard_of=counted)
    follow = InputAddresses(inputs, [], array("Q", [0, 0]), platform).follow
    for _ in range(3):
        assert follow(tensors, array("Q"))
    assert made == [2]
    held = [weakref.ref(each) for each in tensors]
    del tensors
    assert [each() for each in held] == [None, None]


PLACES = [aligned(residue) for residue in (0, 0, 64, 64, 32)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(range(len(PLACES)))] * 3), min_size=1, max_size=8))
def test_all_ways_say_the_same(memory_module: Any, calls: list[tuple[int, int, int]]) -> None:
    items = ((0, 2, 256), (1, 0, 64), (2, 1, 64))
    ways: list[tuple[array[int], Follow]] = []
    inputs = [Input(*item, LAYOUT) for item in items]
    for way in WAYS[:3]:
        addresses = array("Q", [0] * 3)
        ways.append((addresses, in_python(inputs, addresses, way)))
    ways.append((array("Q", [0] * 3), memory_module.Inputs(tuple((*i, LAYOUT) for i in items))))
    for call in calls:
        args = [PLACES[i] for i in call]
        found = [follow(args, addresses) for addresses, follow in ways]
        assert len(set(found)) == 1
        if found[0]:
            expected = [args[1].data_ptr(), args[2].data_ptr(), args[0].data_ptr()]
            assert all(addresses.tolist() == expected for addresses, _ in ways)
