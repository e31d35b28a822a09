"""Following where inputs are, in Python and in compiled code: the same addresses are written."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.replay.inputs import Input, InputAddresses
from pygraph_rt.replay.platform import same_addresses

Items = tuple[tuple[int, int, int], ...]
Follow = Callable[[list[Any], array], bool]
Make = Callable[[Items, array], Follow]


def in_python(items: Items, addresses: array[int], stays: bool) -> Follow:
    platform: Any = SimpleNamespace(same_addresses=same_addresses)
    still = [argument for argument, _, _ in items] if stays else []
    return InputAddresses([Input(*i) for i in items], still, addresses, platform).follow


@pytest.fixture(params=["Python", "Python, stayed so far", "compiled code"])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param == "compiled code":
        module = request.getfixturevalue("memory_module")
        return lambda items, addresses: module.Inputs(items)
    return lambda items, addresses: in_python(items, addresses, "stayed" in request.param)


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
    assert follow([None, torch.empty(0), None, moved], addresses)  # no memory is at 0
    assert addresses[2] == 0


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


PLACES = [aligned(residue) for residue in (0, 0, 64, 64, 32)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.sampled_from(range(len(PLACES)))] * 3), min_size=1, max_size=8))
def test_all_ways_say_the_same(memory_module: Any, calls: list[tuple[int, int, int]]) -> None:
    items = ((0, 2, 256), (1, 0, 64), (2, 1, 64))
    ways: list[tuple[array[int], Follow]] = []
    for stays in (False, True):
        addresses = array("Q", [0] * 3)
        ways.append((addresses, in_python(items, addresses, stays)))
    ways.append((array("Q", [0] * 3), memory_module.Inputs(items)))
    for call in calls:
        args = [PLACES[i] for i in call]
        found = [follow(args, addresses) for addresses, follow in ways]
        assert len(set(found)) == 1
        if found[0]:
            expected = [args[1].data_ptr(), args[2].data_ptr(), args[0].data_ptr()]
            assert all(addresses.tolist() == expected for addresses, _ in ways)
