"""From the raw parameters of two captures to a patch plan. Pure: bytes and integers in, data out.

The same code is captured twice while nothing of it is executed. Every tensor it is given, and
every output it is told to fill, sits at an address range of its own, in each capture another one;
what it allocates itself comes from two memory pools. A 64-bit word that lies in the range of one
block in the first capture and in the range of the same block, at the same offset, in the second
is a pointer to that block: two independent coincidences are not to be expected. Words are looked
at in steps of 4 bytes, because some packed kernel parameters hold pointers at 4-byte alignment.
Every other word must not be an address of device memory, or the region is refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from pygraph_rt.errors import Unprovable

BlockKind = Literal["input", "output", "pool", "scratch", "constant", "random", "number"]
Owner = Callable[[int], "str | None"]

STEP = 4
WORD = 8
LOWER_HALF = (1 << 32) - 1
SMALL = 1 << 24
"""Padding in a parameter structure holds whatever was on the stack, such as the upper half of a
pointer: beside a number below this, it looks like an address just above a multiple of 4 GiB.
"""


@dataclass(frozen=True, order=True)
class Block:
    """A piece of memory that is somewhere else on each call: the n-th input, output, pool segment
    or allocation of the generated code (constants do not move, and are never patched). For "random"
    and "number" the address stands for a number (see rng/philox.py).
    """

    kind: BlockKind
    index: int


class Range(NamedTuple):
    """Addresses [base - before, base + size + after) stand for `block`; offsets count from
    `base`, in bytes.
    """

    base: int
    size: int
    block: Block
    before: int = 0
    after: int = 0


class Node(NamedTuple):
    """One graph node of a capture, as plain data.

    `identity` must be equal in both captures. `fields` are the byte strings in which addresses
    may sit: each parameter of a kernel, source and destination of a copy, destination of a memory
    set.
    """

    kind: str
    name: str
    identity: tuple[object, ...]
    fields: tuple[bytes, ...]


class Edge(NamedTuple):
    """An edge between two nodes by their index, with the driver's edge data."""

    source: int
    target: int
    data: bytes


class Patch(NamedTuple):
    """Write `address of block + addend` as a 64-bit word at `offset` of field `field` of node
    `node`.
    """

    node: int
    field: int
    offset: int
    block: Block
    addend: int


@dataclass(frozen=True)
class Capture:
    """What one capture recorded, and where each block was while it was recorded."""

    nodes: tuple[Node, ...]
    edges: frozenset[Edge]
    blocks: AddressMap


@dataclass(frozen=True)
class PatchPlan:
    """Every word of the first capture's graph that has to follow a block."""

    patches: tuple[Patch, ...]
    nodes: int

    def by_block(self) -> dict[Block, tuple[Patch, ...]]:
        """Patches grouped by the block they follow."""
        groups: dict[Block, list[Patch]] = {}
        for patch in self.patches:
            groups.setdefault(patch.block, []).append(patch)
        return {block: tuple(group) for block, group in groups.items()}

    def patched_nodes(self) -> int:
        """How many nodes hold at least one patched word."""
        return len({patch.node for patch in self.patches})


class AddressMap:
    """Looks up which block an address belongs to.

    Ranges must not overlap. A word one past the end of a range belongs to that range when no
    other range begins there (a kernel may be given an end pointer).
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


def _same_topology(first: Capture, second: Capture) -> None:
    if len(first.nodes) != len(second.nodes):
        raise Unprovable(
            f"two captures of the same code recorded {len(first.nodes)} and {len(second.nodes)} "
            "nodes; "
            "code that launches different work each time cannot be replayed, keep it out of the "
            "compiled region"
        )
    for a, b in zip(first.nodes, second.nodes, strict=True):
        if a.kind != b.kind or a.identity != b.identity:
            raise Unprovable(
                f"two captures of the same code launched different kernels ({a.name} and "
                f"{b.name}); the choice seems to depend on addresses; keep that operator out of "
                "the compiled region"
            )
        if [len(f) for f in a.fields] != [len(f) for f in b.fields]:
            raise Unprovable(
                f"the parameters of {a.name} changed size between two captures; keep that operator "
                "out of the compiled region"
            )
    if first.edges != second.edges:
        raise Unprovable(
            "two captures of the same code ordered their kernels differently; keep what chooses "
            "the order out of the compiled region"
        )


def _unexplained(node: Node, address: int, where: str) -> Unprovable:
    return Unprovable(
        f"{node.kind} {node.name} uses {where} at {address:#x} that is neither an input, an "
        "output, a constant "
        "nor memory it allocated itself; an operator that keeps state of its own looks like this: "
        "pass that state as an argument"
    )


def _field_patches(
    index: int,
    field: int,
    node: Node,
    words: tuple[bytes, bytes],
    maps: tuple[AddressMap, AddressMap],
    statics: AddressMap,
    owner: Owner,
) -> list[Patch]:
    first, second = words
    patches: list[Patch] = []
    offset = 0
    while offset + WORD <= len(first):
        a = int.from_bytes(first[offset : offset + WORD], "little")
        b = int.from_bytes(second[offset : offset + WORD], "little")
        found = _pointer(a, b, maps)
        if found is not None:
            patches.append(Patch(index, field, offset, *found))
            offset += WORD
            continue
        _check_not_memory(node, a, b, maps, statics, owner)
        offset += STEP
    return patches


def _pointer(a: int, b: int, maps: tuple[AddressMap, AddressMap]) -> tuple[Block, int] | None:
    """The block and offset that both words agree on.

    Pool memory needs no equal offset: the second pool may be laid out differently, and only the
    first capture's layout is ever used.
    """
    left, right = maps[0].find(a), maps[1].find(b)
    if left is None or right is None:
        return None
    if left == right or (left[0].kind == "pool" and right[0].kind == "pool"):
        return left
    return None


def _check_not_memory(
    node: Node,
    a: int,
    b: int,
    maps: tuple[AddressMap, AddressMap],
    statics: AddressMap,
    owner: Owner,
) -> None:
    """Raise Unprovable when a word that is no known pointer may be an address."""
    if a == b:
        if statics.find(a) is not None:
            return
        # Nothing given to one capture is known to the other, so a word that did not move cannot
        # point to it: it is a
        # number that looks like an address. Memory from a pool may have been kept by a library, so
        # that is asked.
        for blocks in maps:
            found = blocks.find(a)
            if found is not None and found[0].kind != "pool":
                return
        foreign = owner(a)
        if foreign is not None:
            raise _unexplained(node, a, foreign)
        return
    padding = _is_padding(a, b, maps)
    for word in (a, b):
        if not padding and any(blocks.find(word) is not None for blocks in maps):
            where = f"memory that the two captures ({a:#x}, {b:#x}) do not agree on"
            raise _unexplained(node, word, where)
        foreign = owner(word)
        if foreign is not None:
            raise _unexplained(node, word, foreign)


def _is_padding(a: int, b: int, maps: tuple[AddressMap, AddressMap]) -> bool:
    """Whether two words are a small number beside padding, which holds the upper half of a host
    pointer, or padding with two of them: the same number, or the same upper half, in both captures,
    and at most pool memory at these addresses, which the driver may have put next to the host's.
    All else is at addresses that were made up.
    """
    numbers = a & LOWER_HALF, b & LOWER_HALF
    same = numbers[0] == numbers[1] or a >> 32 == b >> 32
    found = [blocks.find(word) for blocks in maps for word in (a, b)]
    pools = all(f is None or f[0].kind == "pool" for f in found)
    return same and max(numbers) < SMALL and pools


def patch_plan(first: Capture, second: Capture, statics: AddressMap, owner: Owner) -> PatchPlan:
    """Which words of `first` follow which block.

    `statics` are addresses that never move while the plan is in use (constants of the generated
    module). `owner(word)` describes the memory that a word may be an address of ("device
    memory"), or is None for a number. Raises Unprovable when the captures differ in more than
    addresses, or when an address cannot be explained.
    """
    _same_topology(first, second)
    maps = (first.blocks, second.blocks)
    patches: list[Patch] = []
    for index, (a, b) in enumerate(zip(first.nodes, second.nodes, strict=True)):
        for field, words in enumerate(zip(a.fields, b.fields, strict=True)):
            patches += _field_patches(index, field, a, words, maps, statics, owner)
    return PatchPlan(tuple(patches), len(first.nodes))


def apply(plan: PatchPlan, nodes: Sequence[Node], addresses: dict[Block, int]) -> list[list[bytes]]:
    """The fields of every node with all blocks at `addresses`: what the replay writes, in plain
    form.
    """
    fields = [[bytearray(f) for f in node.fields] for node in nodes]
    for patch in plan.patches:
        value = addresses[patch.block] + patch.addend
        fields[patch.node][patch.field][patch.offset : patch.offset + WORD] = value.to_bytes(
            WORD, "little"
        )
    return [[bytes(f) for f in node] for node in fields]
