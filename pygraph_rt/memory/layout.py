"""Where scratch memory lies in the arena. Pure: numbers in, offsets out.

While a region is captured, large pieces that the generated code allocates for itself have addresses
of their own and no memory (see capture/placeholders.py), so it is known from which kernel to which
each one is used; `place` lays them out in as few bytes as that takes. What libraries allocate, and
what is small, comes from a private pool, which goes away with the capture.

On each served call a segment of the arena is an ordinary tensor of the current stream, freed as
soon as what uses it is launched: memory is reused in stream order, so the next call, or anybody
else on this stream, may have it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pygraph_rt.memory.split import LiveInterval
from pygraph_rt.plan.graph import Patch, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block, aligned

if TYPE_CHECKING:
    from pygraph_rt.memory.pool import Segment

# From here on torch's caching allocator has a segment for each piece of memory.
OWN_SEGMENT = 10 << 20
# A segment may be made larger by one such part of it. By more, it might not fit what a program's
# own tensors leave.
_LITTLE = 4


def segment_sizes(
    segments: Sequence[Segment], patches: Sequence[Patch], retained: Collection[Block] = ()
) -> dict[Block, int]:
    """Bytes to allocate on each call for every segment of a capture's pool that the graph uses, or
    that is `retained`: as much as was ever allocated of it, or all of it where a word points beyond
    that, and where it is retained.
    """
    ends: dict[Block, int] = {}
    for patch in patches:
        if patch.block.kind == "pool":
            ends[patch.block] = max(ends.get(patch.block, 0), patch.addend)
    sizes = {}
    for block in sorted(ends.keys() | set(retained)):
        _, size, used = segments[block.index]
        sizes[block] = size if block in retained or ends[block] > used else used
    return sizes


class Placed(NamedTuple):
    """A graph whose scratch memory was laid out: its words point into `segments` (bytes of each),
    which the sub-graphs allocate and free.
    """

    plan: PatchPlan
    sub_graphs: list[SubGraph]
    segments: dict[Block, int]


def place(
    plan: PatchPlan,
    sub_graphs: Sequence[SubGraph],
    scratch: Mapping[Block, LiveInterval],
    segments: Mapping[Block, int],
) -> Placed:
    """Lay out scratch memory: what is live in the same sub-graphs shares a segment, beside the
    `segments` of the capture's pool.
    """
    sizes, made = dict(segments), list(sub_graphs)
    index = max((block.index for block in sizes), default=-1) + 1
    inside: dict[Block, int] = {}
    where: dict[Block, tuple[Block, int]] = {}
    for (first, last), group in sorted(_by_sub_graph(sub_graphs, scratch).items()):
        for piece in cut(group, lay_out(group)):
            segment = Block("pool", index)
            index += 1
            sizes[segment] = piece.nbytes
            where.update({block: (segment, offset) for block, offset in piece.offsets.items()})
            made[first] = made[first]._replace(segments=(*made[first].segments, segment))
            if first == last:
                inside[segment] = first
            if last < len(made) - 1:
                made[last] = made[last]._replace(freed=(*made[last].freed, segment))
    _even_out(sizes, inside)
    return Placed(_moved(plan, where), made, sizes)


def _by_sub_graph(
    sub_graphs: Sequence[SubGraph], scratch: Mapping[Block, LiveInterval]
) -> dict[tuple[int, int], dict[Block, LiveInterval]]:
    """Scratch memory by the sub-graphs in which its life begins and ends."""
    groups: dict[tuple[int, int], dict[Block, LiveInterval]] = {}
    for block, live in scratch.items():
        first, last = (
            next(i for i, part in enumerate(sub_graphs) if node in part.nodes)
            for node in (live.first, live.last)
        )
        groups.setdefault((first, last), {})[block] = live
    return groups


def _moved(plan: PatchPlan, where: Mapping[Block, tuple[Block, int]]) -> PatchPlan:
    """The plan with some blocks at an offset in others."""
    patches = []
    for patch in plan.patches:
        if patch.block in where:
            segment, offset = where[patch.block]
            patch = patch._replace(block=segment, addend=patch.addend + offset)
        patches.append(patch)
    return PatchPlan(tuple(patches), plan.nodes)


def _even_out(sizes: dict[Block, int], inside: Mapping[Block, int]) -> None:
    """Enlarge segments that live in one sub-graph to the size of slightly larger ones of other
    sub-graphs: what one frees, the next allocates then. torch hands out nothing that is too small,
    and would reserve both. `inside` maps such segments to their sub-graph.
    """
    # Sizes that torch will have a segment of, and the sub-graphs that use it.
    segments: list[tuple[int, set[int]]] = []
    for block in sorted(inside, key=lambda block: -sizes[block]):
        part, size = inside[block], sizes[block]
        if size < OWN_SEGMENT:
            break
        fits = [s for s in segments if part not in s[1] and s[0] - size <= size // _LITTLE]
        if fits:
            sizes[block], users = fits[-1]
            users.add(part)
        else:
            segments.append((size, {part}))


class Layout(NamedTuple):
    """Where blocks are in a segment of `nbytes`, in bytes from its beginning."""

    offsets: dict[Block, int]
    nbytes: int


def lay_out(live: Mapping[Block, LiveInterval]) -> Layout:
    """Offsets at which no two blocks that are live at the same time overlap. The largest are placed
    first, each one as low as it can be.
    """
    placed: list[tuple[int, int, LiveInterval]] = []
    offsets: dict[Block, int] = {}
    for block, use in sorted(live.items(), key=lambda item: (-item[1].nbytes, item[0])):
        size = aligned(use.nbytes)
        offset = 0
        for start, end, other in sorted(placed, key=lambda item: item[:2]):
            if start >= offset + size:
                break
            if other.first <= use.last and use.first <= other.last:
                offset = max(offset, end)
        placed.append((offset, offset + size, use))
        offsets[block] = offset
    return Layout(offsets, max((end for _, end, _ in placed), default=0))


def cut(live: Mapping[Block, LiveInterval], whole: Layout) -> list[Layout]:
    """The layout in two where the largest block ends, if that is one that torch takes memory of its
    own for, and nothing lies across. A program has large tensors of the same size: what one had,
    another can have, but not a segment that is a little larger.
    """
    spans = {block: (at, at + live[block].nbytes) for block, at in whole.offsets.items()}
    largest = max(live, key=lambda block: live[block].nbytes)
    place = aligned(spans[largest][1])
    across = any(start < place < end for start, end in spans.values())
    if live[largest].nbytes < OWN_SEGMENT or place == whole.nbytes or across:
        return [whole]
    low = {block: at for block, at in whole.offsets.items() if at < place}
    high = {block: at - place for block, at in whole.offsets.items() if at >= place}
    return [Layout(low, place), Layout(high, whole.nbytes - place)]
