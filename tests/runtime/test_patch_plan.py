"""The patch plan finds every pointer and nothing else, for generated kernels and addresses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pygraph_rt.capture.address_words import patch_plan
from pygraph_rt.errors import Disagreement, Unprovable
from pygraph_rt.plan.graph import WORD, Capture, Edge, Node, PatchPlan
from pygraph_rt.plan.memory_blocks import AddressMap, Block, Range

NOTHING = AddressMap([])
BASES = (0x7F00_0000_0000, 0x7E00_0000_0000, 0x7D00_0000_0000)
SPACING = 1 << 24
SIZE = 1 << 20
GAP = 1 << 16


def apply(plan: PatchPlan, nodes: Sequence[Node], addresses: dict[Block, int]) -> list[list[bytes]]:
    """The fields of every node with all blocks at `addresses`: what a replay writes."""
    fields = [[bytearray(f) for f in node.fields] for node in nodes]
    for patch in plan.patches:
        value = (addresses[patch.block] + patch.addend).to_bytes(WORD, "little")
        fields[patch.node][patch.field][patch.offset : patch.offset + WORD] = value
    return [[bytes(f) for f in node] for node in fields]


def blocks(count: int) -> list[Block]:
    kinds = ("input", "output", "pool")
    return [Block(kinds[i % 3], i) for i in range(count)]


def placed(base: int, count: int, order: list[int]) -> AddressMap:
    """Blocks in any order, so that distances between them differ from capture to capture."""
    return AddressMap(
        Range(base + place * SPACING, SIZE, blocks(count)[i], GAP, GAP)
        for place, i in enumerate(order)
    )


def address_of(base: int, order: list[int], block: int) -> int:
    return base + order.index(block) * SPACING


@dataclass
class Program:
    """Kernels whose fields are numbers, garbage that differs from capture to capture, and
    pointers.
    """

    count: int
    orders: list[list[int]]
    fields: list[list[list[tuple[str, int, int]]]]

    def nodes(self, capture: int, bases: tuple[int, ...] = BASES) -> tuple[Node, ...]:
        return tuple(
            Node("kernel", f"k{i}", (i,), tuple(self.field(f, capture, bases) for f in fields))
            for i, fields in enumerate(self.fields)
        )

    def field(
        self, parts: list[tuple[str, int, int]], capture: int, bases: tuple[int, ...]
    ) -> bytes:
        data = b""
        for kind, value, offset in parts:
            if kind == "pointer":
                place = address_of(bases[capture], self.orders[capture], value % self.count)
                data += (place + offset).to_bytes(8, "little")
            elif kind == "number":
                data += (value % (1 << 32)).to_bytes(4, "little")
            else:
                data += ((value * 2654435761 + capture * 40503) % (1 << 20)).to_bytes(4, "little")
        return data

    def pointers(self) -> set[tuple[int, int, int, Block, int]]:
        found = set()
        for n, fields in enumerate(self.fields):
            for f, parts in enumerate(fields):
                at = 0
                for kind, value, offset in parts:
                    if kind == "pointer":
                        found.add((n, f, at, blocks(self.count)[value % self.count], offset))
                    at += 8 if kind == "pointer" else 4
        return found

    def capture(self, number: int) -> Capture:
        edges = frozenset(Edge(i, i + 1, b"\0" * 8) for i in range(len(self.fields) - 1))
        return Capture(
            self.nodes(number),
            edges,
            placed(BASES[number], self.count, self.orders[number]),
        )


part = st.tuples(
    st.sampled_from(["pointer", "number", "garbage"]),
    st.integers(0, 1 << 20),
    st.integers(0, SIZE),
)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    count = draw(st.integers(1, 6))
    order = st.permutations(list(range(count)))
    fields = st.lists(st.lists(part, max_size=6), max_size=4)
    return Program(
        count,
        [draw(order) for _ in range(3)],
        draw(st.lists(fields, min_size=1, max_size=4)),
    )


def is_number(_: int) -> str | None:
    return None


@settings(max_examples=150, deadline=None)
@given(programs())
def test_exactly_the_pointers_are_found(program: Program) -> None:
    plan = patch_plan(program.capture(0), program.capture(1), NOTHING, is_number)
    assert {tuple(p) for p in plan.patches} == program.pointers()
    assert plan.nodes == len(program.fields)


@settings(max_examples=100, deadline=None)
@given(programs())
def test_the_plan_turns_one_capture_into_another_placement(program: Program) -> None:
    first = program.capture(0)
    plan = patch_plan(first, program.capture(1), NOTHING, is_number)
    addresses = {
        block: address_of(BASES[2], program.orders[2], i)
        for i, block in enumerate(blocks(program.count))
    }
    patched = apply(plan, first.nodes, addresses)
    expected = Program(program.count, program.orders, program.fields)
    for n, parts in enumerate(expected.fields):
        for f, field in enumerate(parts):
            at = 0
            for kind, _, _ in field:
                width = 8 if kind == "pointer" else 4
                want = expected.field(field, 2 if kind == "pointer" else 0, BASES)
                assert patched[n][f][at : at + width] == want[at : at + width]
                at += width


def two(
    first: bytes, second: bytes, maps: tuple[AddressMap, AddressMap] | None = None
) -> tuple[Capture, Capture]:
    maps = maps or (placed(BASES[0], 2, [0, 1]), placed(BASES[1], 2, [1, 0]))
    return tuple(  # type: ignore[return-value]
        Capture((Node("kernel", "gemm", (), (data,)),), frozenset(), blocks_)
        for data, blocks_ in zip((first, second), maps, strict=True)
    )


def word(value: int) -> bytes:
    return value.to_bytes(8, "little")


def plan_of(first: bytes, second: bytes, **kwargs: object) -> PatchPlan:
    captures = two(first, second)
    statics = kwargs.get("statics", NOTHING)
    return patch_plan(*captures, statics, kwargs.get("owner", is_number))  # type: ignore[arg-type]


A0, B0 = BASES[0], BASES[0] + SPACING
A1, B1 = BASES[1] + SPACING, BASES[1]


def test_a_pointer_just_outside_of_a_block_belongs_to_it() -> None:
    for offset in (-16, SIZE, SIZE + 512):
        (patch,) = plan_of(word(A0 + offset), word(A1 + offset)).patches
        assert (patch.block, patch.addend) == (Block("input", 0), offset)


def test_a_pointer_at_a_four_byte_offset_is_found() -> None:
    (patch,) = plan_of(b"\1\0\0\0" + word(A0 + 64), b"\1\0\0\0" + word(A1 + 64)).patches
    assert (patch.offset, patch.addend) == (4, 64)


def test_two_blocks_swapped_between_captures_are_refused() -> None:
    with pytest.raises(Disagreement):
        plan_of(word(A0), word(B1))


def test_another_offset_in_the_same_block_is_refused() -> None:
    with pytest.raises(Disagreement):
        plan_of(word(A0), word(A1 + 8))


def test_padding_beside_a_small_number_is_no_address_in_a_pool() -> None:
    """Seen in a reduction: a 0, then the upper half of a host pointer, where the pool's memory is
    next to the host's.
    """
    boundary = 0x7FC7 << 32
    maps = (
        AddressMap([Range(boundary - SIZE, 2 * SIZE, Block("pool", 0))]),
        AddressMap([Range(0x7FD0 << 32, SIZE, Block("pool", 0))]),
    )
    for number in (0, 5):
        first, second = word(boundary + number), word((0x5581 << 32) + number)
        assert not patch_plan(*two(first, second, maps), NOTHING, is_number).patches
        with pytest.raises(Unprovable, match="device memory"):
            patch_plan(*two(first, second, maps), NOTHING, lambda address: "device memory")
    # Nothing but padding: the upper halves of two host pointers, and of one.
    words = [boundary + 0x7FC7, boundary]
    for first, second in (words, words[::-1]):
        assert not patch_plan(*two(word(first), word(second), maps), NOTHING, is_number).patches
    for first, second in [
        (boundary, (0x5581 << 32) + 1),
        (boundary, boundary + (1 << 24)),
        (boundary - 512, (0x5581 << 32) - 512),
        (boundary + 64, 7),
    ]:
        with pytest.raises(Disagreement):
            patch_plan(*two(word(first), word(second), maps), NOTHING, is_number)
    made_up = (
        AddressMap([Range(boundary, SIZE, Block("input", 0))]),
        AddressMap([Range(boundary + (1 << 40), SIZE, Block("output", 0))]),
    )
    for second in (boundary + (1 << 40), boundary + (2 << 40)):
        with pytest.raises(Disagreement):
            patch_plan(*two(word(boundary), word(second), made_up), NOTHING, is_number)


def test_pool_memory_may_be_laid_out_differently() -> None:
    maps = (
        AddressMap([Range(BASES[0], SIZE, Block("pool", 0))]),
        AddressMap([Range(BASES[1], SIZE, Block("pool", 0))]),
    )
    captures = two(word(BASES[0] + 512), word(BASES[1] + 1024), maps)
    (patch,) = patch_plan(*captures, NOTHING, is_number).patches
    assert patch.addend == 512


def test_a_foreign_address_that_stays_is_refused_by_name() -> None:
    with pytest.raises(Unprovable, match="gemm uses device memory at 0x600000000000"):
        plan_of(word(0x600000000000), word(0x600000000000), owner=lambda w: "device memory")


def test_a_foreign_address_that_moves_is_refused() -> None:
    def owner(value: int) -> str | None:
        return "device memory" if value >> 40 == 0x60 else None

    with pytest.raises(Unprovable, match="device memory"):
        plan_of(word(0x600000000000), word(0x600000001000), owner=owner)


def test_an_address_beside_one_of_nothing_is_what_nobody_wrote() -> None:
    """Seen in a GRU cell: of 25 sizes that a structure has room for, one is written. Left of the
    stack were a tensor's address in one capture, and one of the stack itself in the other.
    """
    tensor, stack, given = 0x600000000000, 0x7FFC4B582D2C, BASES[0]

    def owner(value: int) -> str | None:
        return "device memory" if value == tensor else None

    pairs = [(tensor, stack), (stack, tensor)]
    maps = (AddressMap([Range(given, SIZE, Block("pool", 0))]), AddressMap([]))
    for first, second in pairs:
        captures = two(word(first), word(second), maps)
        assert patch_plan(*captures, NOTHING, owner, lambda w: w == stack).patches == ()
        with pytest.raises(Disagreement, match="device memory"):
            patch_plan(*captures, NOTHING, owner, lambda w: False)
    with pytest.raises(Disagreement, match="device memory"):
        patch_plan(*two(word(tensor), word(given), maps), NOTHING, owner, lambda w: True)
    with pytest.raises(Unprovable, match="device memory"):
        patch_plan(*two(word(tensor), word(tensor), maps), NOTHING, owner, lambda w: True)


def test_a_constant_is_left_where_it_is() -> None:
    statics = AddressMap([Range(0x600000000000, 4096, Block("constant", 0))])
    plan = plan_of(
        word(0x600000000010),
        word(0x600000000010),
        statics=statics,
        owner=lambda w: "device memory",
    )
    assert plan.patches == ()


def test_a_number_that_looks_like_a_placeholder_of_one_capture_is_a_number() -> None:
    plan = plan_of(word(A0 + 9), word(A0 + 9), owner=lambda w: "device memory")
    assert plan.patches == ()


def test_memory_of_the_first_pool_that_something_kept_is_refused() -> None:
    maps = (AddressMap([Range(BASES[0], SIZE, Block("pool", 0))]), AddressMap([]))
    captures = two(word(BASES[0]), word(BASES[0]), maps)
    with pytest.raises(Unprovable, match="device memory"):
        patch_plan(*captures, NOTHING, lambda w: "device memory")
    assert patch_plan(*captures, NOTHING, is_number).patches == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: Capture(c.nodes * 2, c.edges, c.blocks), "recorded 1 and 2 nodes"),
        (
            lambda c: Capture((c.nodes[0]._replace(identity=(1,)),), c.edges, c.blocks),
            "different kernels",
        ),
        (
            lambda c: Capture((c.nodes[0]._replace(fields=(b"1234",)),), c.edges, c.blocks),
            "changed size",
        ),
        (
            lambda c: Capture(c.nodes, frozenset({Edge(0, 0, b"\1" * 8)}), c.blocks),
            "ordered their kernels differently",
        ),
    ],
)
def test_captures_that_differ_in_more_than_addresses_are_refused(
    change: object, words: str
) -> None:
    first, second = two(word(1), word(1))
    with pytest.raises(Unprovable, match=words):
        patch_plan(first, change(second), NOTHING, is_number)  # type: ignore[operator]


def test_overlapping_ranges_are_an_error() -> None:
    with pytest.raises(ValueError, match="overlap"):
        AddressMap([Range(0, 10, Block("input", 0)), Range(5, 10, Block("input", 1))])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=2, max_size=8, unique=True), st.integers(0, 5000))
def test_lookup_agrees_with_a_plain_search(starts: list[int], address: int) -> None:
    ranges = [Range(s * 10, 9, Block("input", i)) for i, s in enumerate(starts)]
    expected = [(r.block, address - r.base) for r in ranges if r.base <= address <= r.base + 9]
    found = AddressMap(ranges).find(address)
    assert ([found] if found else []) == expected
