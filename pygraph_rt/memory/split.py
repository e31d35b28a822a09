"""Where a graph is split so that it needs less memory at once. Pure: numbers in, sub-graphs out.

Compiled code frees a saved activation in the middle of a backward, and allocates a gradient when it
is filled. A graph that is launched as a whole needs all of them at the same time. Launched as a few
sub-graphs, it lets go of what no later one reads, and allocates what no earlier one fills, in
between. Sub-graphs run one after the other on one stream, so any cut between nodes in a topological
order keeps what the graph's edges say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from pygraph_rt.plan.graph import Edge, PatchPlan, SubGraph
from pygraph_rt.plan.memory_blocks import Block

# A launch more costs a few microseconds. It has to save this part of what a call has in memory, and
# this many bytes.
_WORTH = 64
_LEAST = 16 << 20
_MOST_SUB_GRAPHS = 8
# Cuts that are considered: those next to which most memory changes hands.
_CANDIDATES = 64
_NEVER = 1 << 62
# torch puts what is smaller into segments of 20 MiB, where nothing larger finds room later.
_LARGE = 10 << 20
Loads = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class CallBytes:
    """Bytes of what a call has in memory: the arena by segment, outputs by storage number,
    arguments that nobody else holds by position, scratch memory that is still to be laid out, and
    all `others` of the arguments. retained: segments that outputs stay in, which are not freed.
    together: for some `dropped` arguments, others in the same memory.
    """

    arena: Mapping[Block, int]
    outputs: Sequence[int]
    dropped: Mapping[int, int]
    scratch: Mapping[Block, int] = field(default_factory=dict)
    others: int = 0
    retained: frozenset[Block] = frozenset()
    together: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class LiveInterval(NamedTuple):
    """Memory that is needed from one node to another, both included."""

    nbytes: int
    first: int
    last: int


class LiveIntervals(NamedTuple):
    """When a graph needs which memory; see `CallBytes`. in_order: whether each node comes after
    those that it waits for.
    """

    nodes: int
    in_order: bool
    arena: dict[Block, LiveInterval]
    outputs: list[LiveInterval]
    dropped: dict[int, LiveInterval]
    scratch: dict[Block, LiveInterval]
    others: int
    together: Mapping[int, tuple[int, ...]]

    def held(self) -> list[LiveInterval]:
        """What a sub-graph has as long as it runs."""
        return [*self.arena.values(), *self.outputs, *self.dropped.values()]


def live_intervals(plan: PatchPlan, edges: frozenset[Edge], sizes: CallBytes) -> LiveIntervals:
    """When a graph needs what, by the words that point there."""
    first: dict[Block, int] = {}
    last: dict[Block, int] = {}
    for patch in plan.patches:
        first[patch.block] = min(patch.node, first.get(patch.block, patch.node))
        last[patch.block] = max(patch.node, last.get(patch.block, patch.node))
    end = plan.nodes - 1
    in_order = all(edge.source < edge.target for edge in edges)
    beside = _concurrent(plan.nodes, edges) if in_order else [range(plan.nodes)] * plan.nodes
    arena = {
        block: LiveInterval(
            size, first.get(block, end), end if block in sizes.retained else last[block]
        )
        for block, size in sizes.arena.items()
    }
    outputs = [
        LiveInterval(size, first.get(Block("output", k), end), end)
        for k, size in enumerate(sizes.outputs)
    ]
    dropped = {
        i: LiveInterval(size, 0, max(last.get(Block("input", j), 0) for j in (i, *others)))
        for i, size in sizes.dropped.items()
        for others in [sizes.together.get(i, ())]
    }
    scratch = {
        block: LiveInterval(size, beside[first[block]].start, beside[last[block]].stop - 1)
        for block, size in sizes.scratch.items()
        if block in first
    }
    return LiveIntervals(
        plan.nodes, in_order, arena, outputs, dropped, scratch, sizes.others, sizes.together
    )


def _concurrent(nodes: int, edges: frozenset[Edge]) -> list[range]:
    """For each node the ones that may run at the same time, itself included: all nodes between two
    full barriers (nodes that wait for everything before them and that everything after them waits
    for). Nodes are in order.
    """
    next_one, one_before = [nodes] * nodes, [-1] * nodes
    for source, target, _ in edges:
        next_one[source] = min(next_one[source], target)
        one_before[target] = max(one_before[target], source)
    joins = [m <= i for i, m in enumerate(accumulate([0, *next_one[:-1]], max))]
    # For each node the least of what those behind it wait for.
    least = list(accumulate(reversed([*one_before[1:], _NEVER]), min))[::-1]
    forks = [m >= i for i, m in zip(range(nodes), least, strict=True)]
    found: list[range] = []
    start = 0
    for i, alone in enumerate(a and b for a, b in zip(joins, forks, strict=True)):
        if alone:
            found += [range(start, i)] * (i - start) + [range(i, i + 1)]
            start = i + 1
    return found + [range(start, nodes)] * (nodes - start)


def whole(uses: LiveIntervals) -> list[SubGraph]:
    """All of a graph as one sub-graph."""
    return [SubGraph(range(uses.nodes), tuple(uses.arena), tuple(range(len(uses.outputs))))]


def sub_graphs(uses: LiveIntervals) -> list[SubGraph]:
    """What to launch a graph as: as few sub-graphs as it takes until one more saves little."""
    if uses.nodes < 2 or not uses.in_order:
        return whole(uses)
    total = sum(use.nbytes for use in (*uses.held(), *uses.scratch.values()))
    cuts = _best(uses, total, max(_LEAST, (uses.others + total) // _WORTH))
    if not cuts:
        return whole(uses)
    found = []
    for start, end in pairwise([0, *cuts, uses.nodes]):
        here = range(start, end)
        last = end == uses.nodes  # then everything goes anyway
        found.append(
            SubGraph(
                here,
                tuple(block for block, use in uses.arena.items() if use.first in here),
                tuple(k for k, use in enumerate(uses.outputs) if use.first in here),
                () if last else _dropped(uses, here),
                () if last else tuple(b for b, use in uses.arena.items() if use.last in here),
            )
        )
    return found


def _dropped(uses: LiveIntervals, part: range) -> tuple[int, ...]:
    """Arguments that are let go of after a sub-graph, those in the same memory together."""
    found = [i for i, use in uses.dropped.items() if use.last in part]
    return tuple(j for i in found for j in (i, *uses.together.get(i, ())))


def _counted(nbytes: int) -> int:
    """Memory is reserved for the most that small pieces need, and for the most that large ones do,
    even where that is at different times. So small pieces count twice: once with the others, and
    once for themselves.
    """
    return 2 * nbytes if nbytes < _LARGE else nbytes


def _live(uses: LiveIntervals, counted: Callable[[int], int]) -> list[int]:
    """Live scratch bytes that count, per node."""
    change = [0] * (uses.nodes + 1)
    for use in uses.scratch.values():
        change[use.first] += counted(use.nbytes)
        change[use.last + 1] -= counted(use.nbytes)
    return list(accumulate(change[:-1]))


def _best(uses: LiveIntervals, total: int, price: int) -> list[int]:
    """The cuts with the lowest peak of what counts, when each costs `price` bytes, and `total` is
    needed without any; and further ones where the peak of all bytes gets lower by as much.
    """
    if total <= price:
        return []
    points = [0, *_candidates(uses), uses.nodes]
    cuts = _cheapest(points, _loads(points, uses, _counted), price)
    loads = _loads(points, uses, int)
    edges = np.array(points)
    for cut in cuts:
        loads[np.ix_(edges < cut, edges > cut)] = _NEVER
    return _cheapest(points, loads, price)


def _cheapest(points: Sequence[int], load: Loads, price: int) -> list[int]:
    """The points to cut at so that the highest load of a sub-graph and `price` a cut are least."""
    # The lowest peak of what comes before each point, launched as a number of sub-graphs, and where
    # the last of these begins.
    peak, starts = load[0], []
    best_cost, best_count = int(peak[-1]), 0
    for count in range(1, min(_MOST_SUB_GRAPHS, len(points) - 1)):
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


def _loads(points: Sequence[int], uses: LiveIntervals, counted: Callable[[int], int]) -> Loads:
    """The bytes that count of what a sub-graph from one of the points to another one has; more than
    anything where that is no sub-graph.
    """
    edges = np.array(points)
    held = [(counted(use.nbytes), use.first, use.last) for use in uses.held()]
    load = np.zeros((len(points), len(points)), dtype=np.int64)
    if held:
        sizes, first, last = np.array(held, dtype=np.int64).T
        load = ((last >= edges[:, None]) * sizes) @ (first[:, None] < edges)
    live = np.array(_live(uses, counted), dtype=np.int64)
    for row, start in zip(load, points[:-1], strict=False):
        later = edges > start
        row[later] += np.maximum.accumulate(live[start:])[edges[later] - start - 1]
    return np.where(edges[:, None] < edges, load, _NEVER)


def _candidates(uses: LiveIntervals) -> list[int]:
    """Cuts just before something is first needed, or after it was needed last."""
    weights: dict[int, int] = {}
    for use in (*uses.held(), *uses.scratch.values()):
        for cut in (use.first, use.last + 1):
            if 0 < cut < uses.nodes:
                weights[cut] = weights.get(cut, 0) + use.nbytes
    return sorted(sorted(weights, key=lambda cut: -weights[cut])[:_CANDIDATES])
