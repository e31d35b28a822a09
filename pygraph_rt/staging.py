"""Where a graph is split so that it needs less memory at once. Pure: numbers in, parts out.

The ordinary path frees a saved activation in the middle of a backward, and makes a gradient when it
is filled. A graph that is launched as a whole needs all of them at the same time. Launched in a few
parts, it lets go of what no later part reads, and takes what no earlier part fills, in between.
Parts run one after the other on one stream, so any cut between nodes in a topological order keeps
what the graph's edges say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .parameters import Block, Edge, PatchPlan

# A launch more costs a few microseconds. It has to save this part of what a call has in memory, and
# this many bytes.
_WORTH = 64
_LEAST = 16 << 20
_MOST_PARTS = 8
# Cuts that are considered: those next to which most memory changes hands.
_CANDIDATES = 64
_NEVER = 1 << 62


class Part(NamedTuple):
    """Nodes that are launched together. Before that, segments of the arena are `taken` and outputs
    `made` (by storage number); after it, arguments are `dropped` and segments `returned`.
    """

    nodes: range
    taken: tuple[Block, ...]
    made: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    returned: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """Bytes of what a call has in memory: the arena by segment, outputs by storage number,
    arguments that nobody else holds by position, and all other arguments.
    """

    arena: Mapping[Block, int]
    outputs: Sequence[int]
    dropped: Mapping[int, int]
    others: int = 0


class _Use(NamedTuple):
    """Memory that is needed from one node to another."""

    nbytes: int
    first: int
    last: int


def whole(nodes: int, sizes: Sizes) -> list[Part]:
    """All of a graph as one part."""
    return [Part(range(nodes), tuple(sizes.arena), tuple(range(len(sizes.outputs))))]


def in_order(edges: frozenset[Edge]) -> bool:
    """Whether nodes are numbered so that each one comes after those that it waits for."""
    return all(edge.source < edge.target for edge in edges)


def parts(plan: PatchPlan, edges: frozenset[Edge], sizes: Sizes) -> list[Part]:
    """The parts to launch a graph in: as few as it takes until one more saves little memory."""
    if plan.nodes < 2 or not in_order(edges):
        return whole(plan.nodes, sizes)
    arena, outputs, dropped = _uses(plan, sizes)
    uses = [*arena.values(), *outputs, *dropped.values()]
    total = sizes.others + sum(use.nbytes for use in uses)
    cuts = _best(plan.nodes, uses, max(_LEAST, total // _WORTH))
    if not cuts:
        return whole(plan.nodes, sizes)
    found = []
    for start, end in pairwise([0, *cuts, plan.nodes]):
        here = range(start, end)
        last = end == plan.nodes  # then everything goes anyway
        found.append(
            Part(
                here,
                tuple(block for block, use in arena.items() if use.first in here),
                tuple(k for k, use in enumerate(outputs) if use.first in here),
                () if last else tuple(i for i, use in dropped.items() if use.last in here),
                () if last else tuple(block for block, use in arena.items() if use.last in here),
            )
        )
    return found


def _uses(plan: PatchPlan, sizes: Sizes) -> tuple[dict[Block, _Use], list[_Use], dict[int, _Use]]:
    """Who needs which memory from when to when: segments of the arena, outputs, arguments."""
    first: dict[Block, int] = {}
    last: dict[Block, int] = {}
    for patch in plan.patches:
        first[patch.block] = min(patch.node, first.get(patch.block, patch.node))
        last[patch.block] = max(patch.node, last.get(patch.block, patch.node))
    end = plan.nodes - 1
    arena = {block: _Use(size, first[block], last[block]) for block, size in sizes.arena.items()}
    outputs = [
        _Use(size, first.get(Block("output", k), end), end) for k, size in enumerate(sizes.outputs)
    ]
    dropped = {
        i: _Use(size, 0, last.get(Block("input", i), 0)) for i, size in sizes.dropped.items()
    }
    return arena, outputs, dropped


def _best(nodes: int, uses: Sequence[_Use], price: int) -> list[int]:
    """The cuts with the lowest peak, when each costs `price` bytes."""
    if sum(use.nbytes for use in uses) <= price:
        return []
    points = [0, *_candidates(nodes, uses), nodes]
    load = _loads(points, uses)
    # The lowest peak of what comes before each point, launched in a number of parts, and where the
    # last of these parts begins.
    peak, starts = load[0], []
    best_cost, best_count = int(peak[-1]), 0
    for count in range(1, min(_MOST_PARTS, len(points) - 1)):
        through = np.maximum(peak[:, None], load)
        starts.append(through.argmin(axis=0))
        peak = through.min(axis=0)
        cost = int(peak[-1]) + count * price
        if cost < best_cost:
            best_cost, best_count = cost, count
    cuts: list[int] = []
    point = len(points) - 1
    for start in reversed(starts[:best_count]):
        point = int(start[point])
        cuts.insert(0, points[point])
    return cuts


def _loads(points: Sequence[int], uses: Sequence[_Use]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What a part from one of the points to another one has in memory; more than anything where
    that is no part.
    """
    nbytes, first, last = np.array(uses, dtype=np.int64).T
    edges = np.array(points)
    needed = (last >= edges[:, None]) * nbytes
    load = needed @ (first[:, None] < edges)
    return np.where(edges[:, None] < edges, load, _NEVER)


def _candidates(nodes: int, uses: Sequence[_Use]) -> list[int]:
    """Cuts just before something is first needed, or after it was needed last."""
    weights: dict[int, int] = {}
    for use in uses:
        for cut in (use.first, use.last + 1):
            if 0 < cut < nodes:
                weights[cut] = weights.get(cut, 0) + use.nbytes
    return sorted(sorted(weights, key=lambda cut: -weights[cut])[:_CANDIDATES])
