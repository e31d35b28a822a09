"""Blocks of memory that are at another address on each call, and the map from addresses to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

BlockKind = Literal["input", "output", "pool", "scratch", "constant", "random", "number"]

ALIGNMENT = 512
"""Bytes. Blocks begin at a multiple of it, as those of torch's allocator do."""


@dataclass(frozen=True, order=True)
class Block:
    """Memory that a graph uses: the n-th input, output, segment of a capture's pool, or scratch
    allocation of the generated code. Constants do not move, and are never patched. For "random"
    and "number" the address stands for a number (see rng/philox.py).
    """

    kind: BlockKind
    index: int

    def __str__(self) -> str:
        return f"{self.kind} {self.index}"


class Range(NamedTuple):
    """Addresses [base - before, base + size + after) stand for `block`; offsets count from
    `base`, in bytes.
    """

    base: int
    size: int
    block: Block
    before: int = 0
    after: int = 0


class AddressMap:
    """Looks up which block an address belongs to.

    Ranges must not overlap (ValueError). A word one past the end of a range belongs to that range
    when no other range begins there (a kernel may be given an end pointer).
    """

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._ranges = sorted(ranges, key=lambda r: r.base - r.before)
        self._starts = [r.base - r.before for r in self._ranges]
        for left, right in pairwise(self._ranges):
            if left.base + left.size + left.after > right.base - right.before:
                raise ValueError(f"address ranges of {left.block} and {right.block} overlap")

    def find(self, address: int) -> tuple[Block, int] | None:
        """(block, offset in bytes from the block's base), or None."""
        i = bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        found = self._ranges[i]
        if address <= found.base + found.size + found.after:
            return found.block, address - found.base
        return None


def extent(size: Sequence[int], stride: Sequence[int], itemsize: int) -> int:
    """Bytes from a tensor's first element to the end of its last one; 0 for an empty tensor."""
    if any(s == 0 for s in size):
        return 0
    return (sum((s - 1) * t for s, t in zip(size, stride, strict=True)) + 1) * itemsize


def aligned(nbytes: int, alignment: int = ALIGNMENT) -> int:
    """`nbytes`, rounded up to a multiple of `alignment`."""
    return -(-nbytes // alignment) * alignment


def alignment_class(address: int) -> int:
    """Largest power of two up to 256 that divides an address: library kernels are chosen by it."""
    return min(256, address & -address) if address else 256
