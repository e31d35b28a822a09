"""Memory of a graph's parts, as numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pygraph_rt.arena import Placed, cut, lay_out, most_taken, place
from pygraph_rt.parameters import Block, Patch, PatchPlan
from pygraph_rt.staging import Part, Use

MIB = 1 << 20


def _placed(sizes: list[list[int]], across: int = 0) -> Placed:
    """Parts of as many nodes as they have scratch blocks, all of a part's in use at once; and one
    block of `across` bytes for all of them.
    """
    scratch = {Block("scratch", 0): Use(across, 0, sum(map(len, sizes)) - 1)} if across else {}
    parts: list[Part] = []
    start = 0
    for inside in sizes:
        here = range(start, start + len(inside))
        for nbytes in inside:
            scratch[Block("scratch", len(scratch))] = Use(nbytes, here.start, here.stop - 1)
        parts.append(Part(here, (), ()))
        start = here.stop
    patches = [
        Patch(n, 0, 8 * b.index, b, 0) for b, use in scratch.items() for n in (use.first, use.last)
    ]
    return place(PatchPlan(tuple(patches), start), parts, scratch, {})


def _sizes(placed: Placed) -> list[list[float]]:
    return [[placed.chunks[b] / MIB for b in part.taken] for part in placed.parts]


def test_what_one_part_returned_fits_another() -> None:
    """densenet121, measured: parts of 262 and of 304 MiB had a segment each."""
    assert _sizes(_placed([[262 * MIB], [304 * MIB]])) == [[304], [304]]
    assert _sizes(_placed([[304 * MIB], [262 * MIB]])) == [[304], [304]]
    assert _sizes(_placed([[240 * MIB], [304 * MIB]])) == [[240], [304]]  # more than a little
    assert _sizes(_placed([[8 * MIB], [9 * MIB]])) == [[8], [9]]  # of segments of another kind
    # What stays from part to part is as large as it was.
    assert _sizes(_placed([[262 * MIB], [304 * MIB]], 280 * MIB)) == [[304, 280], [304]]


def test_to_the_size_that_is_next() -> None:
    sizes = [[100 * MIB], [90 * MIB], [81 * MIB], [75 * MIB], [60 * MIB]]
    assert _sizes(_placed(sizes)) == [[100], [100], [100], [75], [75]]


def test_each_part_takes_a_segment_once() -> None:
    # A part with two blocks is laid out as the larger one and the rest.
    assert _sizes(_placed([[100 * MIB, 90 * MIB], [95 * MIB]])) == [[100, 90], [100]]
    assert _sizes(_placed([[95 * MIB], [98 * MIB, 96 * MIB]])) == [[96], [98, 96]]


@given(st.lists(st.lists(st.integers(1, 64 * MIB), min_size=1, max_size=4), min_size=1, max_size=5))
def test_evening_out_needs_little_more(sizes: list[list[int]]) -> None:
    least: list[int] = []
    for part in sizes:
        inside = {Block("scratch", i): Use(nbytes, 0, 0) for i, nbytes in enumerate(part)}
        least += [piece.nbytes for piece in cut(inside, lay_out(inside))]
    placed = _placed(sizes)
    chunks = [chunk for part in placed.parts for chunk in part.taken]
    for block, size in zip(chunks, least, strict=True):
        assert size <= placed.chunks[block] <= size * 1.25
    large = {size for size in least if size >= 10 * MIB}
    assert {size for size in placed.chunks.values() if size >= 10 * MIB} <= large
    before = most_taken(placed.parts, dict(zip(chunks, least, strict=True)))
    assert before <= most_taken(placed.parts, placed.chunks) <= before * 1.25
