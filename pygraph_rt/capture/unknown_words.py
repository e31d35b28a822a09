"""Is a word that nobody explained the address of something?

Asked for words that are neither inputs, outputs, constants nor a capture's own memory. A pointer
to anything else would be frozen into the graph, so a region with such a pointer is refused.
Numbers must not be taken for pointers either: where the driver places memory at low addresses,
pairs of small integers and floats (the multiplier and shift of a division, a scale and a count)
look like addresses all the time.
"""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any

import torch

from pygraph_rt.capture.diff import LOWER_HALF, SMALL

# Addresses below this have a small upper half, as two neighbouring 32-bit numbers may have it.
LOW = 4096 << 32
# Padding beside a float like 0.1, whose last bits are not zero, looks like an address that is
# aligned to nothing.
_POINTER_ALIGNMENT = 4
_BLOCK_ALIGNMENT = 256
_ROUND_FLOAT = 1 << 16
# Lower halves that are a float of 2^-20 to 2^20, either sign; one of a few digits has no low bits.
_FLOAT_SIGN, _FLOAT_LEAST, _FLOAT_MOST, _FLOAT_DIGITS = 1 << 31, 0x35800000, 0x49800000, 1 << 20


def parameter_memory() -> set[int]:
    """Where the memory of each parameter of a module in this process starts."""
    found = [o for o in gc.get_objects() if type(o) is torch.nn.Parameter and o.is_cuda]
    return {p.untyped_storage().data_ptr() for p in found}


class UnknownWords:
    """Answers `owner(word)` for a process whose allocator looks like `snapshot`
    (`torch.cuda.memory_snapshot()`).

    `parameters` are the starts of memory that modules keep their parameters in, asked for once,
    when a word needs it. Code that uses a parameter has it as an argument, so a small number beside
    a round float that could also be the address of a parameter, and is no argument, is a number.

    `library` becomes True when a word may point into memory that torch did not allocate: a graph
    with such a word is only served on the stream that it was captured for, because a library
    orders its own memory by stream.
    """

    def __init__(
        self,
        snapshot: Sequence[dict[str, Any]],
        memory_kind: Callable[[int], str | None],
        parameters: Callable[[], Collection[int]] = parameter_memory,
    ) -> None:
        self._memory_kind = memory_kind
        self._find_parameters = parameters
        self._known: dict[int, str | None] = {}
        self.library = False
        self._segments = sorted((int(s["address"]), int(s["total_size"])) for s in snapshot)
        self._live = sorted(_live_blocks(snapshot))

    def owner(self, word: int) -> str | None:
        """What a word may be an address of, in words; None for a number."""
        if word < 1 << 20 or word >> 57:
            return None
        if word not in self._known:
            self._known[word] = self._ask(word)
        return self._known[word]

    def _ask(self, word: int) -> str | None:
        kind = self._memory_kind(word)
        if kind is None:
            return None
        if kind != "device":
            return f"{kind} memory"
        half = word & LOWER_HALF
        if word >= LOW and half >= SMALL and not (word % _POINTER_ALIGNMENT and _float(half)):
            return "device memory"
        if _containing(self._segments, word) is None:
            self.library = True
            return None
        base = _containing(self._live, word)
        if base is None:
            return None
        # A buffer that something keeps is used from its beginning, or from an aligned place in it.
        aligned = word % _BLOCK_ALIGNMENT == 0 and word % _ROUND_FLOAT != 0
        if aligned or (word == base and not self._number(word)):
            return "device memory"
        return None

    def _number(self, word: int) -> bool:
        """Whether the start of a block is taken for a small number beside a round float."""
        half = word & LOWER_HALF
        round_float = _float(half) and not half % _FLOAT_DIGITS
        return word < LOW and round_float and word in self._parameters

    @cached_property
    def _parameters(self) -> Collection[int]:
        return self._find_parameters()


def _float(half: int) -> bool:
    """Whether half a word is a float as programs use them."""
    return _FLOAT_LEAST <= half & ~_FLOAT_SIGN <= _FLOAT_MOST


def _live_blocks(snapshot: Sequence[dict[str, Any]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for segment in snapshot:
        address = int(segment["address"])
        for block in segment["blocks"]:
            size = int(block["size"])
            if str(block["state"]).startswith("active"):
                found.append((address, size))
            address += size
    return found


def _containing(spans: Sequence[tuple[int, int]], word: int) -> int | None:
    """Start of the (start, size) span that holds a word, among sorted spans that do not overlap."""
    i = bisect_right(spans, (word, 1 << 63)) - 1
    if i >= 0 and word < spans[i][0] + spans[i][1]:
        return spans[i][0]
    return None
