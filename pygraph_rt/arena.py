"""The memory that a served call works in.

While a partition is captured, what it allocates for itself comes from a private pool. The pool
goes away with the capture; on each served call its segments are taken from the ordinary caching
allocator instead, as ordinary tensors of the current stream that are let go as soon as the graph
is launched: memory is reused in stream order, so the next call, or anybody else on this stream,
may have it at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .parameters import Block, Patch, Range


class Segment(NamedTuple):
    """A piece of a capture pool: address and size in bytes."""

    address: int
    size: int


def snapshot() -> list[dict[str, Any]]:
    """Every segment of torch's caching allocator, with its blocks."""
    found: list[dict[str, Any]] = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return found


def pool_segments(pool_id: tuple[int, int], segments: Sequence[dict[str, Any]]) -> list[Segment]:
    """The segments of one pool among those of a `snapshot()`, by address."""
    found = [
        Segment(int(s["address"]), int(s["total_size"]))
        for s in segments
        if tuple(s["segment_pool_id"]) == tuple(pool_id)
    ]
    return sorted(found)


def pool_ranges(segments: Sequence[Segment]) -> list[Range]:
    """Address ranges of a pool's segments, as blocks of kind "pool" in address order."""
    return [Range(s.address, s.size, Block("pool", i)) for i, s in enumerate(segments)]


def chunk_sizes(segments: Sequence[Segment], patches: Sequence[Patch]) -> dict[Block, int]:
    """Bytes to take on each call for every segment that the graph uses."""
    used = {p.block for p in patches if p.block.kind == "pool"}
    return {block: segments[block.index].size for block in sorted(used)}


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fill byte tensors with 0xFF (a NaN in every floating-point format)."""
    for tensor in tensors:
        tensor.fill_(255)


def untouched(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether byte tensors of a multiple of 8 bytes still hold 0xFF throughout. Waits for the
    GPU.
    """
    for tensor in tensors:
        low, high = torch.aminmax(tensor.view(torch.int64))
        if int(low) != -1 or int(high) != -1:
            return False
    return True
