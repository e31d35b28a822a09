"""The memory that a served call works in.

While a partition is captured, large pieces that the generated code allocates for itself have
addresses of their own and no memory (see capture/placeholders.py), so it is known from which kernel
to which each one is used; `place` lays them out in as little memory as that takes. What libraries
allocate, and what is small, comes from a private pool, which goes away with the capture.

On each served call these pieces of memory are taken from the ordinary caching allocator, as
ordinary tensors of the current stream that are let go as soon as what uses them is launched: memory
is reused in stream order, so the next call, or anybody else on this stream, may have it at once.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from pygraph_rt.capture.diff import Block, Patch, PatchPlan, Range
from pygraph_rt.capture.placeholders import ALIGNMENT
from pygraph_rt.memory.split import Part, Use

# From here on torch's caching allocator has a segment for each piece of memory.
OWN_SEGMENT = 10 << 20
# A chunk may be made larger by one such part of it. By more, it might not fit what a program's own
# tensors leave.
_LITTLE = 4
# torch's allocator notes so many events at most while it is asked to.
_EVENTS = 1 << 18


class Segment(NamedTuple):
    """A piece of a capture pool: its address, its size, and how much of it from its beginning on
    was ever given out. Sizes are in bytes.
    """

    address: int
    size: int
    used: int


# Address and size in bytes of each block that torch's allocator gave out, if that is known.
Given = Sequence[tuple[int, int]] | None


@contextlib.contextmanager
def given_out(device: int) -> Iterator[Callable[[], Given]]:
    """Lets torch's allocator note what it gives out on this GPU; what is yielded tells it. It is
    not known while the program itself has the allocator take notes, or where torch does not say.
    """
    enabled = getattr(torch._C, "_cuda_isHistoryEnabled", None)
    if enabled is None or enabled():
        yield lambda: None
        return

    def told() -> Given:
        events = torch.cuda.memory._snapshot()["device_traces"][device]
        if len(events) >= _EVENTS:
            return None
        return [(int(e["addr"]), int(e["size"])) for e in events if e["action"] == "alloc"]

    torch.cuda.memory._record_memory_history("all", context=None, max_entries=_EVENTS)
    try:
        yield told
    finally:
        torch.cuda.memory._record_memory_history(None)


def snapshot() -> list[dict[str, Any]]:
    """Every segment of torch's caching allocator, with its blocks."""
    found: list[dict[str, Any]] = torch.cuda.memory_snapshot()  # type: ignore[no-untyped-call]
    return found


def of_pool(pool_id: tuple[int, int], segments: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of a `snapshot()` that belong to one pool."""
    return [s for s in segments if tuple(s["segment_pool_id"]) == tuple(pool_id)]


def pool_segments(
    pool_id: tuple[int, int], segments: Sequence[dict[str, Any]], given: Given = None
) -> list[Segment]:
    """The segments of one pool among those of a `snapshot()`, by address. All that was ever `given`
    out of them counts as used, or all of them where that is not known.
    """
    found = sorted((int(s["address"]), int(s["total_size"])) for s in of_pool(pool_id, segments))
    if given is None:
        return [Segment(address, size, size) for address, size in found]
    ends = [0] * len(found)
    for address, size in given:
        i = bisect_right(found, address, key=lambda segment: segment[0]) - 1
        if i >= 0 and address < sum(found[i]):
            ends[i] = max(ends[i], address - found[i][0] + size)
    return [
        Segment(address, size, min(-(-end // ALIGNMENT) * ALIGNMENT or size, size))
        for (address, size), end in zip(found, ends, strict=True)
    ]


def pool_ranges(segments: Sequence[Segment]) -> list[Range]:
    """Address ranges of a pool's segments, as blocks of kind "pool" in address order."""
    return [Range(s.address, s.size, Block("pool", i)) for i, s in enumerate(segments)]


def chunk_sizes(
    segments: Sequence[Segment], patches: Sequence[Patch], kept: Collection[Block] = ()
) -> dict[Block, int]:
    """Bytes to take on each call for every segment that the graph uses, or that is `kept`: as much
    as was given out of it, or all of it where a word points beyond that, and where it is kept.
    """
    ends: dict[Block, int] = {}
    for patch in patches:
        if patch.block.kind == "pool":
            ends[patch.block] = max(ends.get(patch.block, 0), patch.addend)
    sizes = {}
    for block in sorted(ends.keys() | set(kept)):
        _, size, used = segments[block.index]
        sizes[block] = size if block in kept or ends[block] > used else used
    return sizes


class Placed(NamedTuple):
    """A graph whose scratch memory was laid out: its words point into chunks, which the parts take
    and return.
    """

    plan: PatchPlan
    parts: list[Part]
    chunks: dict[Block, int]


def place(
    plan: PatchPlan, parts: Sequence[Part], scratch: Mapping[Block, Use], chunks: dict[Block, int]
) -> Placed:
    """Lay out scratch memory: what is used in the same parts shares a chunk, beside the `chunks`
    that there are.
    """
    groups: dict[tuple[int, int], dict[Block, Use]] = {}
    for block, use in scratch.items():
        first, last = (
            next(i for i, part in enumerate(parts) if node in part.nodes)
            for node in (use.first, use.last)
        )
        groups.setdefault((first, last), {})[block] = use
    chunks, made = dict(chunks), list(parts)
    index = max((block.index for block in chunks), default=-1) + 1
    inside: dict[Block, int] = {}
    where: dict[Block, tuple[Block, int]] = {}
    for (first, last), group in sorted(groups.items()):
        for piece in cut(group, lay_out(group)):
            chunk = Block("pool", index)
            index += 1
            chunks[chunk] = piece.nbytes
            where.update({block: (chunk, offset) for block, offset in piece.offsets.items()})
            made[first] = made[first]._replace(taken=(*made[first].taken, chunk))
            if first == last:
                inside[chunk] = first
            if last < len(made) - 1:
                made[last] = made[last]._replace(returned=(*made[last].returned, chunk))
    patches = []
    for patch in plan.patches:
        if patch.block in where:
            chunk, offset = where[patch.block]
            patch = patch._replace(block=chunk, addend=patch.addend + offset)
        patches.append(patch)
    _even_out(chunks, inside)
    return Placed(PatchPlan(tuple(patches), plan.nodes), made, chunks)


def _even_out(chunks: dict[Block, int], inside: Mapping[Block, int]) -> None:
    """Make chunks that only one part has as large as those of other parts that are a little larger:
    what one part has returned is what the next takes then. torch gives out nothing that is too
    small, and would reserve both. `inside` says which chunks only one part has, and which part.
    """
    # Sizes that torch will have a segment of, and the parts that take it.
    segments: list[tuple[int, set[int]]] = []
    for block in sorted(inside, key=lambda block: -chunks[block]):
        part, size = inside[block], chunks[block]
        if size < OWN_SEGMENT:
            break
        fits = [s for s in segments if part not in s[1] and s[0] - size <= size // _LITTLE]
        if fits:
            chunks[block], users = fits[-1]
            users.add(part)
        else:
            segments.append((size, {part}))


class Layout(NamedTuple):
    """Where blocks are in a chunk of `nbytes`, in bytes from its beginning."""

    offsets: dict[Block, int]
    nbytes: int


def lay_out(uses: Mapping[Block, Use]) -> Layout:
    """Blocks in use at the same time do not overlap. The largest are placed first, each one as low
    as it can be.
    """
    placed: list[tuple[int, int, Use]] = []
    offsets: dict[Block, int] = {}
    for block, use in sorted(uses.items(), key=lambda item: (-item[1].nbytes, item[0])):
        size = -(-use.nbytes // ALIGNMENT) * ALIGNMENT
        offset = 0
        for start, end, other in sorted(placed, key=lambda item: item[:2]):
            if start >= offset + size:
                break
            if other.first <= use.last and use.first <= other.last:
                offset = max(offset, end)
        placed.append((offset, offset + size, use))
        offsets[block] = offset
    return Layout(offsets, max((end for _, end, _ in placed), default=0))


def cut(uses: Mapping[Block, Use], whole: Layout) -> list[Layout]:
    """The layout in two where the largest block ends, if that is one that torch takes memory of its
    own for, and nothing lies across. A program has large tensors of the same size: what one had,
    another can have, but not a chunk that is a little larger.
    """
    spans = {block: (at, at + uses[block].nbytes) for block, at in whole.offsets.items()}
    largest = max(uses, key=lambda block: uses[block].nbytes)
    place = -(-spans[largest][1] // ALIGNMENT) * ALIGNMENT
    across = any(start < place < end for start, end in spans.values())
    if uses[largest].nbytes < OWN_SEGMENT or place == whole.nbytes or across:
        return [whole]
    low = {block: at for block, at in whole.offsets.items() if at < place}
    high = {block: at - place for block, at in whole.offsets.items() if at >= place}
    return [Layout(low, place), Layout(high, whole.nbytes - place)]


def most_taken(parts: Sequence[Part], chunks: Mapping[Block, int]) -> int:
    """The most bytes of the arena that a call has at a time."""
    most = held = 0
    for part in parts:
        held += sum(chunks[block] for block in part.taken)
        most = max(most, held)
        held -= sum(chunks[block] for block in part.returned)
    return most


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
