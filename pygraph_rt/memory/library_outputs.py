"""What library calls return: left where it is, or copied to where an output belongs.

A convolution or an attention takes memory for its result itself, from the capture's pool. Where
the result is a saved activation, it may stay in its segment of the pool, which a served call takes
anew each time: the segment then lives until the backward has let go of all results in it. Anything
else is copied into memory of its own by a kernel of the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from pygraph_rt.errors import Unprovable
from pygraph_rt.memory.pool import Segment, blocks_of, whole
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.plan.outputs import Fresh, OutputPlan, Slab, Storage

# Segments that are retained are more than half full of results. All that is retained beside results
# is at most this part of what a forward returns, or so many bytes.
_WASTED = 32
_LITTLE = 8 << 20
# torch's segments for what is below 10 MiB. Who keeps one result of a segment keeps all of it, so
# nothing larger is retained for more than one.
_SHARED = 20 << 20


class RetainedSegment(NamedTuple):
    """A segment of a capture's pool that is retained: address and size in bytes, and (number,
    offset in bytes) of the storages in it, by number.
    """

    address: int
    size: int
    places: tuple[tuple[int, int], ...]


def candidates(plan: OutputPlan, saved: Collection[int]) -> frozenset[int]:
    """Storages that library calls returned, and that only outputs at the positions `saved` see."""
    shown = {
        o.storage for i, o in enumerate(plan.outputs) if isinstance(o, Fresh) and i not in saved
    }
    return frozenset(
        n
        for n, s in enumerate(plan.storages)
        if s.allocation is None and s.nbytes and n not in shown and not s.nbytes % s.dtype.itemsize
    )


def choose(
    storages: Sequence[Storage], places: Mapping[int, int], segments: Sequence[dict[str, Any]]
) -> list[RetainedSegment]:
    """Which `segments` of a pool (see pool.snapshot) are retained, for which of the storages at the
    addresses `places`.

    The storages are alive, and so is the block that each one begins: nothing has been put into
    these bytes since, and nothing will be while the capture goes on. What used them before runs
    before. The results in a segment have one dtype. The fullest segments are retained first.
    """
    shared = Counter(places.values())
    alone = {n: address for n, address in places.items() if shared[address] == 1}
    found: list[tuple[float, int, RetainedSegment]] = []
    for segment in segments:
        base, size = int(segment["address"]), int(segment["total_size"])
        live = {at: size for at, size, state in blocks_of(segment) if state == "active_allocated"}
        inside = [n for n, at in alone.items() if storages[n].nbytes <= live.get(at, -1)]
        for dtype in {storages[n].dtype for n in inside}:
            chosen = sorted(n for n in inside if storages[n].dtype is dtype)
            wasted = size - sum(storages[n].nbytes for n in chosen)
            if 2 * wasted < size and (len(chosen) == 1 or size <= _SHARED):
                retained = RetainedSegment(base, size, tuple((n, alone[n] - base) for n in chosen))
                found.append((wasted / size, wasted, retained))
    # In an order that does not depend on where the segments are.
    found.sort(key=lambda item: (item[0], item[2].places))
    sums = accumulate(wasted for _, wasted, _ in found)
    room = max(_LITTLE, sum(storage.nbytes for storage in storages) // _WASTED)
    return [retained for (_, _, retained), end in zip(found, sums, strict=True) if end <= room]


def agree(first: Sequence[RetainedSegment], second: Sequence[RetainedSegment]) -> bool:
    """Whether two captures have the same storages at the same places of segments of one size,
    wherever the segments are.
    """
    return sorted(r[1:] for r in first) == sorted(r[1:] for r in second)


def slabs(
    retained: Sequence[RetainedSegment], segments: Sequence[Segment], storages: Sequence[Storage]
) -> dict[Block, Slab]:
    """Retained segments as memory that outputs share, by their blocks."""
    blocks = {s.address: Block("pool", i) for i, s in enumerate(segments)}
    return {blocks[k.address]: _slab(k, blocks[k.address], storages) for k in retained}


def _slab(retained: RetainedSegment, block: Block, storages: Sequence[Storage]) -> Slab:
    dtype = storages[retained.places[0][0]].dtype
    views = tuple(
        (storages[n].size, storages[n].stride, at // dtype.itemsize) for n, at in retained.places
    )
    memory = ((retained.size // dtype.itemsize,), (1,), dtype)
    return Slab(memory, tuple(n for n, _ in retained.places), (0,), views, (block,), saved=True)


def copy_or_retain(
    plan: OutputPlan,
    results: Sequence[Any],
    placed: Mapping[int, torch.Tensor],
    retainable: Collection[int],
    segments: Callable[[], Sequence[dict[str, Any]]],
) -> list[RetainedSegment]:
    """At the end of a capture: retain what is worth it of the `retainable` storages, in the
    capture's `segments`, and copy what else libraries returned to where its outputs are `placed`.
    """
    found = returned(plan, results)
    places = {n: source.data_ptr() for n, source in found.items() if n in retainable}
    retained = choose(plan.storages, places, segments()) if places else []
    left = {n for segment in retained for n, _ in segment.places}
    for n, source in found.items():
        if n not in left:
            _copy(source, placed[n])
    return retained


def returned(plan: OutputPlan, results: Sequence[Any]) -> dict[int, torch.UntypedStorage]:
    """The memory that library calls returned, by storage number. Raises Unprovable where outputs
    have another layout than the plan's.
    """
    found: dict[int, torch.UntypedStorage] = {}
    for spec, value in zip(plan.outputs, results, strict=True):
        if not isinstance(spec, Fresh):
            continue
        storage = plan.storages[spec.storage]
        layout = (tuple(value.shape), tuple(value.stride()), value.storage_offset())
        if layout != (spec.size, spec.stride, spec.offset):
            raise Unprovable(
                "its outputs have another layout than on the call before; code that depends on "
                "data cannot be replayed, keep it out of the compiled region"
            )
        if storage.allocation is not None or spec.storage in found or not storage.nbytes:
            continue
        source = value.untyped_storage()
        if source.nbytes() != storage.nbytes:
            raise Unprovable(
                "a library call returned memory of another size than on the call before; keep it "
                "out of the compiled region"
            )
        found[spec.storage] = source
    return found


def _copy(source: torch.UntypedStorage, placed: torch.Tensor) -> None:
    """Copy the bytes of a library's result to where its output is `placed`."""
    whole(placed.untyped_storage()).copy_(whole(source))
