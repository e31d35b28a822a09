"""Classify parameter words that no block explains: addresses of something, or numbers.

Asked for words that are neither inputs, outputs, constants nor a capture's own memory. A pointer
to anything else would be frozen into the graph, so a region with such a pointer is refused.
Numbers must not be taken for pointers either: where the driver places memory at low addresses,
pairs of small integers and floats (the multiplier and shift of a division, a scale and a count)
look like addresses all the time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

from pygraph_rt.capture.address_words import LOWER_HALF, SMALL
from pygraph_rt.capture.operators import BYTE
from pygraph_rt.memory.pool import blocks_of

# Addresses below this have a small upper half, as two neighbouring 32-bit numbers may have it.
LOW = 4096 << 32
# Padding beside a float like 0.1, whose last bits are not zero, looks like an address that is
# aligned to nothing.
_POINTER_ALIGNMENT = 4
_BLOCK_ALIGNMENT = 256
_ROUND_FLOAT = 1 << 16
# Half a word that nobody wrote on a filled stack: the other half may be left of a pointer.
_UNWRITTEN = int.from_bytes(4 * bytes([BYTE]), "little")
# Lower halves that are a float of 2^-20 to 2^20, either sign.
_FLOAT_SIGN, _FLOAT_LEAST, _FLOAT_MOST = 1 << 31, 0x35800000, 0x49800000


class UnknownWords:
    """Answers `owner(word)` for a process whose allocator looks like `snapshot`
    (`torch.cuda.memory_snapshot()`).

    `memory_kind(word)` asks the driver; `may_keep_memory`: whether an operator may use memory that
    it keeps from call to call. `library` becomes True when a word may point into memory that torch
    did not allocate: a graph with such a word is only served on the stream that it was captured
    for, because a library orders its own memory by stream.
    """

    def __init__(
        self,
        snapshot: Sequence[dict[str, Any]],
        memory_kind: Callable[[int], str | None],
        may_keep_memory: bool = True,
    ) -> None:
        self._memory_kind = memory_kind
        self._may_keep_memory = may_keep_memory
        self._known: dict[int, str | None] = {}
        self.library = False
        self._segments = sorted((int(s["address"]), int(s["total_size"])) for s in snapshot)
        self._live = sorted(
            (address, size)
            for segment in snapshot
            for address, size, state in blocks_of(segment)
            if state.startswith("active")
        )

    def owner(self, word: int) -> str | None:
        """What a word may be an address of, in words; None for a number."""
        if word < 1 << 20 or word >> 57:
            return None
        if word not in self._known:
            self._known[word] = self._ask(word)
        return self._known[word]

    def nowhere(self, word: int) -> bool:
        """Whether a word has the form of an address, and is none of memory that a GPU reads, such
        as one on the stack. Never where an operator may use memory of its own: it may have given
        that back since.
        """
        formed = word >= 1 << 20 and not word >> 57
        return formed and not self._may_keep_memory and self._memory_kind(word) is None

    def _ask(self, word: int) -> str | None:
        kind = self._memory_kind(word)
        if kind is None:
            return None
        if kind != "device":
            return f"{kind} memory"
        half = word & LOWER_HALF
        if half == _UNWRITTEN:
            return None
        if word >= LOW and half >= SMALL and not (word % _POINTER_ALIGNMENT and _float(half)):
            return "device memory"
        if _containing(self._segments, word) is None:
            self.library = True
            return None
        base = _containing(self._live, word)
        if base is None or (word >= LOW and not self._may_keep_memory):
            return None
        # A buffer that something keeps is used from its beginning, or from an aligned place in it.
        aligned = word % _BLOCK_ALIGNMENT == 0 and word % _ROUND_FLOAT != 0
        return "device memory" if aligned or word == base else None


def _float(half: int) -> bool:
    """Whether half a word is a float as programs use them."""
    return _FLOAT_LEAST <= half & ~_FLOAT_SIGN <= _FLOAT_MOST


def _containing(spans: Sequence[tuple[int, int]], word: int) -> int | None:
    """Start of the (start, size) span that holds a word, among sorted spans that do not overlap."""
    i = bisect_right(spans, (word, 1 << 63)) - 1
    if i >= 0 and word < spans[i][0] + spans[i][1]:
        return spans[i][0]
    return None
