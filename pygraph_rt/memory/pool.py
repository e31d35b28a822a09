"""A capture's memory pool as torch's caching allocator knows it."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.plan.memory_blocks import aligned

# torch's allocator records so many events at most while it is asked to.
_EVENTS = 1 << 18


class Segment(NamedTuple):
    """A segment of a capture's pool: its address, its size, and how much of it from its beginning
    on was ever allocated. Sizes are in bytes.
    """

    address: int
    size: int
    used: int


# Address and size in bytes of each block that torch's allocator handed out, if that is known.
Allocations = Sequence[tuple[int, int]] | None


def snapshot() -> list[dict[str, Any]]:
    """Every segment of torch's caching allocator, with its blocks."""
    found: list[dict[str, Any]] = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return found


def blocks_of(segment: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    """(address, size, state) of the blocks of one segment of a `snapshot()`."""
    address = int(segment["address"])
    for block in segment["blocks"]:
        size = int(block["size"])
        yield address, size, str(block["state"])
        address += size


def whole(storage: torch.UntypedStorage) -> torch.Tensor:
    """All bytes of a storage."""
    empty = torch.empty((0,), dtype=torch.uint8, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes(),), (1,))


@contextlib.contextmanager
def record_allocations(device: int) -> Iterator[Callable[[], Allocations]]:
    """Record what torch's allocator hands out on this GPU; what is yielded returns it.

    Returns None, and records nothing, while the program records a memory history of its own or has
    one from before: starting and stopping another would lose it.
    """
    if torch._C._cuda_isHistoryEnabled() or any(_traces()):
        yield lambda: None
        return

    def recorded() -> Allocations:
        events = _traces()[device]
        if len(events) >= _EVENTS:
            return None
        return [(int(e["addr"]), int(e["size"])) for e in events if e["action"] == "alloc"]

    torch.cuda.memory._record_memory_history("all", context=None, max_entries=_EVENTS)
    try:
        yield recorded
    finally:
        torch.cuda.memory._record_memory_history(None, clear_history=True)


def _traces() -> list[list[dict[str, Any]]]:
    """The recorded memory history, by GPU."""
    traces: list[list[dict[str, Any]]] = torch.cuda.memory._snapshot()["device_traces"]
    return traces


def of_pool(pool_id: tuple[int, int], segments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a `snapshot()` that belong to one pool."""
    return [s for s in segments if tuple(s["segment_pool_id"]) == tuple(pool_id)]


def pool_segments(
    pool_id: tuple[int, int], segments: Sequence[dict[str, Any]], allocations: Allocations = None
) -> list[Segment]:
    """The segments of one pool among those of a `snapshot()`, by address. Up to the end of the last
    of the `allocations` in it a segment counts as used; all of it where these are not known.
    """
    found = sorted((int(s["address"]), int(s["total_size"])) for s in of_pool(pool_id, segments))
    if allocations is None:
        return [Segment(address, size, size) for address, size in found]
    ends = [0] * len(found)
    for address, size in allocations:
        i = bisect_right(found, address, key=lambda segment: segment[0]) - 1
        if i >= 0 and address < sum(found[i]):
            ends[i] = max(ends[i], address - found[i][0] + size)
    return [
        Segment(address, size, min(aligned(end) or size, size))
        for (address, size), end in zip(found, ends, strict=True)
    ]
