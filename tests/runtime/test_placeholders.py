"""Placeholder addresses: a range for each block, guarded, aligned as asked, and given back in
order.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.capture.placeholders import Placeholders, Request, layout, page_size
from pygraph_rt.capture.unknown_words import LOW
from pygraph_rt.cuda.driver import ABOVE_4_GIB, Driver
from pygraph_rt.errors import DriverError
from pygraph_rt.plan.memory_blocks import ALIGNMENT, AddressMap, Block, extent
from tests.runtime.fake_driver import FakeDriver

PAGE = 2 << 20
requests = st.lists(
    st.tuples(st.integers(1, 5 * PAGE), st.integers(0, ALIGNMENT - 1)), min_size=1, max_size=12
).map(lambda items: [Request(Block("input", i), n, r) for i, (n, r) in enumerate(items)])


@settings(max_examples=100, deadline=None)
@given(requests)
def test_ranges_are_apart_guarded_and_aligned(wanted: list[Request]) -> None:
    ranges, span = layout(wanted)
    blocks = AddressMap(ranges)
    for request, found in zip(wanted, ranges, strict=True):
        assert found.base % ALIGNMENT == request.residue
        assert found.base - found.before >= 0
        assert found.base + found.size + found.after <= span
        for offset in (-1024, 0, request.nbytes, request.nbytes + 1024):
            assert blocks.find(found.base + offset) == (request.block, offset)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 3 << 30) | st.integers(1, 1 << 20), min_size=1, max_size=12))
def test_no_address_is_a_small_number_beside_padding(sizes: list[int]) -> None:
    """Seen in reductions of large models: a 4, a 5 and a 999, and the upper half of an address."""
    wanted = [Request(Block("input", i), n, i) for i, n in enumerate(sizes)]
    ranges, span = layout(wanted)
    base = (0x2B5D << 32) + ABOVE_4_GIB
    blocks = AddressMap([r._replace(base=r.base + base) for r in ranges])
    for window in range((base >> 32), ((base + span) >> 32) + 1):
        for number in (0, 4, 5, 999, (1 << 24) - 1):
            assert blocks.find((window << 32) + number) is None
    assert span < 2 * sum(sizes) + (len(sizes) + 2) * 8 * PAGE


def test_what_is_larger_than_4_gib_is_placed_all_the_same() -> None:
    (found,), span = layout([Request(Block("input", 0), 9 << 30, 0)])
    assert found.base == found.before
    assert (9 << 30) < span < (9 << 30) + PAGE


@given(st.integers(1, 1 << 40))
def test_few_pages_are_mapped_and_the_piece_behind_them_is_small(span: int) -> None:
    page = page_size(span, PAGE)
    assert page % PAGE == 0
    assert page <= max(PAGE, min(16 * PAGE, span // 32))
    assert span <= 64 * page or page == 16 * PAGE


def test_everything_is_given_back_once_and_in_order() -> None:
    driver = FakeDriver()
    places = Placeholders(driver, 0, [Request(Block("input", 0), 3 * PAGE, 0)])  # type: ignore[arg-type]
    mapped = [entry for entry in driver.log if entry[0] == "map"]
    assert len(mapped) == 4
    assert {size for _, _, size in mapped} == {PAGE}
    places.close()
    places.close()
    assert [entry[0] for entry in driver.log if entry[0] != "map"] == [
        "create",
        "reserve",
        "access",
        "unmap",
        "free",
        "release",
    ]


@pytest.mark.parametrize("call", ["reserve", "map"])
def test_a_failure_on_the_way_leaves_nothing_behind(call: str) -> None:
    driver = FakeDriver()
    driver.fail = lambda name: int(name == call)
    with pytest.raises(DriverError):
        Placeholders(driver, 0, [Request(Block("input", 0), PAGE, 0)])  # type: ignore[arg-type]
    opened = {"create": 0, "reserve": 0}
    for entry in driver.log:
        opened["create"] += (entry[0] == "create") - (entry[0] == "release")
        opened["reserve"] += (entry[0] == "reserve") - (entry[0] == "free")
    assert opened == {"create": 0, "reserve": 0}


def test_extent_counts_to_the_last_element() -> None:
    assert extent((4, 3), (3, 1), 4) == 48
    assert extent((4, 3), (10, 2), 2) == 70
    assert extent((), (), 8) == 8
    assert extent((0, 3), (3, 1), 4) == 0


@pytest.mark.parametrize("agrees", [True, False])
def test_address_space_is_asked_for_where_no_small_numbers_are(
    monkeypatch: pytest.MonkeyPatch, agrees: bool
) -> None:
    asked: list[int] = []

    def call(driver: Driver, name: str, address: Any, *arguments: Any) -> None:
        size, alignment, hint, flags = (a.value for a in arguments)
        assert (name, size, alignment, flags) == ("cuMemAddressReserve", 3 * PAGE, PAGE, 0)
        asked.append(hint)
        if hint and not agrees:
            raise DriverError("cuMemAddressReserve: CUDA_ERROR_INVALID_VALUE")
        address._obj.value = hint + PAGE  # it need not be the same

    monkeypatch.setattr(Driver, "_call", call)
    driver = Driver(MagicMock())
    assert driver.reserve(3 * PAGE, PAGE) == asked[-1] + PAGE
    assert asked[1:] == ([] if agrees else [0])
    driver.reserve(3 * PAGE, PAGE)  # beside the first, which may be large
    assert abs(asked[len(asked) // 2] - asked[0]) >= 1 << 40
    assert LOW <= asked[0] < 1 << 47
    assert asked[0] % (1 << 32) == ABOVE_4_GIB
    assert asked[0] >> 32 & (asked[0] >> 32) - 1  # no power of two
