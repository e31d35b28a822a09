"""Telling addresses of foreign memory from numbers that only look like them."""

from __future__ import annotations

from typing import Any

import pytest

from pygraph_rt.capture.unknown_words import UnknownWords

HIGH, LOW = 0x7F12_4000_0000, 0x3_8880_0000
HALF = 0x7F43_0000_0000  # half an address, beside a zero
BLOCK = 1 << 20


def snapshot(*bases: int) -> list[dict[str, Any]]:
    """Segments of two blocks: the first one in use, the second one free."""
    blocks = [{"size": BLOCK, "state": s} for s in ("active_allocated", "inactive")]
    return [{"address": b, "total_size": 2 * BLOCK, "blocks": blocks} for b in bases]


def ask(word: int, kind: str | None = "device") -> tuple[str | None, bool]:
    neighbours = UnknownWords(snapshot(HIGH, LOW), lambda address: kind)
    return neighbours.owner(word), neighbours.library


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (HIGH, "device memory"),
        (HIGH + 12344, "device memory"),
        (0x7E00_1234_5601, "device memory"),  # no float that programs use
        (HIGH + BLOCK + 64, "device memory"),
        (0x7E00_1234_5600, "device memory"),
        (HIGH + 2 * BLOCK + (1 << 24), "device memory"),
        (0x7F12_A5A5_A5A5, None),  # padding: half of it is as it was before the call
        (LOW, "device memory"),
        (LOW + 256, "device memory"),
        (LOW + 0x8889, None),  # the multiplier of a division by 15, and a 3
        (LOW + BLOCK + 256, None),  # nothing lives there
    ],
)
def test_addresses_and_numbers_are_told_apart(word: int, expected: str | None) -> None:
    assert ask(word) == (expected, False)


def test_what_cuda_does_not_know_is_a_number() -> None:
    assert ask(HIGH, None) == (None, False)
    assert ask(5) == (None, False)
    assert ask(1 << 60) == (None, False)


def test_host_memory_is_named() -> None:
    assert ask(0x7F55_0000_0000, "host") == ("host memory", False)
    assert ask(0x2_0000_0000, "host") == ("host memory", False)


def test_a_small_number_beside_half_an_address_is_noted() -> None:
    # Seen in a convolution of cuDNN: a 32, then padding, and device memory of the driver's there.
    assert ask(0x7F74_0000_0020) == (None, True)
    assert ask(0x7F74_0000_0000 + (1 << 24) - 4) == (None, True)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, None), (999, None), (256, "device memory"), ((1 << 24) + 1, "device memory")],
)
def test_half_an_address_that_falls_into_memory_in_use(number: int, expected: str | None) -> None:
    # Seen in a reduction: padding beside a 0 and a 999, where a segment crosses a 4 GiB boundary.
    blocks = [{"size": 1 << 26, "state": "active_allocated"}]
    segment = {"address": HALF - 512, "total_size": 1 << 26, "blocks": blocks}
    neighbours = UnknownWords([segment], lambda address: "device")
    assert (neighbours.owner(HALF + number), neighbours.library) == (expected, False)


@pytest.mark.parametrize("half", [0x3DCC_CCCD, 0x3E99_999A, 0xBDCC_CCCD])
def test_a_fraction_beside_half_an_address_is_a_number(half: int) -> None:
    # Seen in an attention's backward: a dropout of 0.1, then padding, in memory of the test's.
    word = 0x7FCF_0000_0000 + half
    blocks = [{"size": 1 << 30, "state": "active_allocated"}]
    segment = {"address": word - (1 << 29) - 1, "total_size": 1 << 30, "blocks": blocks}
    inside = UnknownWords([segment], lambda address: "device")
    assert (inside.owner(word), inside.library) == (None, False)
    assert inside.owner(word & ~3) == "device memory"
    assert ask(word) == (None, True)  # nothing of torch's is there


def test_a_low_word_in_memory_of_a_library_is_noted() -> None:
    assert ask(0x3_3F00_0000) == (None, True)


@pytest.mark.parametrize("word", [HALF, HALF + 256])
def test_where_no_operator_keeps_memory_half_an_address_is_none(word: int) -> None:
    memory = snapshot(LOW, HALF)
    assert UnknownWords(memory, lambda address: "device").owner(word) == "device memory"
    assert UnknownWords(memory, lambda address: "device", False).owner(word) is None


@pytest.mark.parametrize("word", [HIGH, LOW, LOW + 256])
def test_a_whole_address_is_one_whatever_operators_keep(word: int) -> None:
    memory = snapshot(LOW, HALF)
    assert UnknownWords(memory, lambda address: "device", False).owner(word) == "device memory"


@pytest.mark.parametrize("word", [0, 8, 0x7FFC_4B58_2D2C, (1 << 64) - 1])
def test_what_is_nowhere_is_an_address_of_nothing_that_a_gpu_reads(word: int) -> None:
    """Neither a null pointer nor another mark of none is."""
    found = UnknownWords([], lambda address: None, may_keep_memory=False)
    assert found.nowhere(word) == (word == 0x7FFC_4B58_2D2C)
    assert not UnknownWords([], lambda address: "host", may_keep_memory=False).nowhere(word)
    assert not UnknownWords([], lambda address: None).nowhere(word)
