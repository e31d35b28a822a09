"""A captured graph as plain data: nodes, edges, the words to patch, and sub-graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pygraph_rt.errors import Unprovable
from pygraph_rt.plan.memory_blocks import AddressMap, Block

STEP = 4
"""Bytes. Packed kernel parameters may hold pointers at this alignment."""
WORD = 8
"""Bytes of an address."""


class Node(NamedTuple):
    """One graph node of a capture, as plain data.

    `identity` must be equal in both captures. `fields` are the byte strings in which addresses
    may sit: each parameter of a kernel, source and destination of a copy, destination of a memory
    set. `raw` is the node as the driver returned it (cuda/structures.py: RawNode).
    """

    kind: str
    name: str
    identity: tuple[object, ...]
    fields: tuple[bytes, ...]
    raw: Any = None


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
    """What one capture recorded, and where each block was while it was recorded.

    nodes: in topological order. handle: of torch's graph. surplus: handles of its nodes that do not
    count. changed: nodes whose parameters are others than in that graph.
    """

    nodes: tuple[Node, ...]
    edges: frozenset[Edge]
    blocks: AddressMap
    handle: int = 0
    surplus: tuple[int, ...] = ()
    changed: frozenset[int] = frozenset()

    def without(self, index: int) -> Capture:
        """The same without its last node. Raises Unprovable when another node waits for it."""
        if any(edge.source == index for edge in self.edges):
            raise Unprovable("a kernel that was captured last is not last; please report this")
        edges = frozenset(
            Edge(e.source - (e.source > index), e.target - (e.target > index), e.data)
            for e in self.edges
            if e.target != index
        )
        nodes = self.nodes[:index] + self.nodes[index + 1 :]
        surplus = (*self.surplus, self.nodes[index].raw.handle)
        return replace(self, nodes=nodes, edges=edges, surplus=surplus)


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


class SubGraph(NamedTuple):
    """Nodes that are launched together. Before the launch, segments of the arena (`segments`) and
    `outputs` (by storage number) are allocated; after it, `dropped` arguments and `freed` segments
    are let go of.
    """

    nodes: range
    segments: tuple[Block, ...]
    outputs: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    freed: tuple[Block, ...] = ()
