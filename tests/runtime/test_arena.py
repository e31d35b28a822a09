"""Memory of a graph's parts, as numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pygraph_rt.arena import Placed, cut, lay_out, place, taken
from pygraph_rt.parameters import Block, Patch, PatchPlan
from pygraph_rt.staging import Part, Use, Uses, held

MIB = 1 << 20


def _one_each(sizes: list[list[int]]) -> tuple[PatchPlan, list[Part], dict[Block, Use]]:
    """Parts of as many nodes as they have scratch blocks, all of a part's in use at once."""
    scratch: dict[Block, Use] = {}
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
    return PatchPlan(tuple(patches), start), parts, scratch


def _sizes(placed: Placed) -> list[list[int]]:
    return [[placed.chunks[b] // MIB for b in part.taken] for part in placed.parts]


def test_what_one_part_returned_fits_another() -> None:
    """densenet121, measured: parts of 262 and of 304 MiB had a segment each."""
    plan, parts, scratch = _one_each([[262 * MIB], [304 * MIB]])
    assert _sizes(place(plan, parts, scratch, {}, [0, 0])) == [[304], [304]]
    # Where the first part has more than any other then, by at most a quarter of what is saved.
    assert _sizes(place(plan, parts, scratch, {}, [42 * MIB, 0])) == [[304], [304]]
    plan, parts, scratch = _one_each([[242 * MIB], [304 * MIB]])
    assert _sizes(place(plan, parts, scratch, {}, [62 * MIB, 0])) == [[242], [304]]
    assert _sizes(place(plan, parts, scratch, {}, [60 * MIB, 0])) == [[304], [304]]
    # What is small comes out of segments of another kind.
    plan, parts, scratch = _one_each([[6 * MIB], [9 * MIB]])
    assert _sizes(place(plan, parts, scratch, {}, [0, 0])) == [[6], [9]]
    # Each to the size that is next, of those that another part has.
    plan, parts, scratch = _one_each([[20 * MIB], [90 * MIB], [60 * MIB], [70 * MIB]])
    assert _sizes(place(plan, parts, scratch, {}, [0] * 4)) == [[90]] * 4
    assert _sizes(place(plan, parts, scratch, {}, [0, 0, 30 * MIB, 0])) == [[60], [90], [60], [90]]


@given(
    st.lists(st.lists(st.integers(1, 64 * MIB), max_size=4), min_size=1, max_size=5),
    st.data(),
)
def test_evening_out_needs_little_more_at_a_time(
    sizes: list[list[int]], data: st.DataObject
) -> None:
    plan, parts, scratch = _one_each(sizes)
    held = [data.draw(st.integers(0, 64 * MIB)) for _ in parts]
    placed = place(plan, parts, scratch, {}, held)
    least: list[int] = []
    for part in parts:
        inside = {b: use for b, use in scratch.items() if use.first in part.nodes}
        least += [piece.nbytes for piece in cut(inside, lay_out(inside))] if inside else []
    chunks = [chunk for part in placed.parts for chunk in part.taken]
    assert all(placed.chunks[b] >= size for b, size in zip(chunks, least, strict=True))
    before = [
        a + b
        for a, b in zip(
            taken(placed.parts, dict(zip(chunks, least, strict=True))), held, strict=True
        )
    ]
    after = [a + b for a, b in zip(taken(placed.parts, placed.chunks), held, strict=True)]
    large = [size for size in least if size >= 10 * MIB]
    assert {s for s in placed.chunks.values() if s >= 10 * MIB} <= {*large}
    assert max(after) <= max(before) + sum(large) // 4


def test_what_parts_hold_beside_the_arena() -> None:
    outputs = [Use(7, 0, 5), Use(0, 1, 5), Use(30, 3, 5)]
    dropped = {4: Use(100, 0, 1), 5: Use(1000, 0, 4)}
    uses = Uses(6, True, {}, outputs, dropped, {}, 12345, {})
    parts = [Part(range(2), (), ()), Part(range(2, 3), (), ()), Part(range(3, 6), (), ())]
    assert held(uses, parts) == [1107, 1007, 1037]
