"""Flow graphs, and the two analyses that need nothing but the graph: a work-list solver of data
flow equations, and dominators.

Nodes are numbered from 0; node 0 is the entry. Both run over any graph: of statements, of calls.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TypeVar

StateT = TypeVar("StateT")

ENTRY = 0


class FlowGraph:
    """A directed graph with one entry."""

    def __init__(self) -> None:
        self.successors: list[list[int]] = [[]]
        self.predecessors: list[list[int]] = [[]]

    def add_node(self) -> int:
        """A new node without edges."""
        self.successors.append([])
        self.predecessors.append([])
        return len(self.successors) - 1

    def add_edge(self, source: int, target: int) -> None:
        """An edge; one that is there already is not added again."""
        if target not in self.successors[source]:
            self.successors[source].append(target)
            self.predecessors[target].append(source)

    def order(self) -> list[int]:
        """The nodes that can be reached from the entry, in reverse postorder: a node comes before
        its successors, but for edges back to the head of a loop.
        """
        seen = {ENTRY}
        postorder: list[int] = []
        stack = [(ENTRY, iter(self.successors[ENTRY]))]
        while stack:
            node, rest = stack[-1]
            following = next((each for each in rest if each not in seen), None)
            if following is None:
                postorder.append(node)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(self.successors[following])))
        return postorder[::-1]


def solve(
    graph: FlowGraph,
    start: StateT,
    transfer: Callable[[int, StateT], StateT],
    join: Callable[[StateT, StateT], StateT],
) -> dict[int, StateT]:
    """The least solution of a forward data flow problem: the state in front of each node that can
    be reached.

    ``start`` holds in front of the entry, ``transfer`` gives the state behind a node, ``join`` the
    state where two edges meet. Both must be monotone on a lattice of finite height; then the
    work-list ends.
    """
    order = graph.order()
    rank = {node: index for index, node in enumerate(order)}
    before: dict[int, StateT] = {ENTRY: start}
    waiting = [0]
    queued = {ENTRY}
    while waiting:
        node = order[heapq.heappop(waiting)]
        queued.discard(node)
        behind = transfer(node, before[node])
        for following in graph.successors[node]:
            new = behind if following not in before else join(before[following], behind)
            if following in before and new == before[following]:
                continue
            before[following] = new
            if following not in queued:
                queued.add(following)
                heapq.heappush(waiting, rank[following])
    return before


def immediate_dominators(graph: FlowGraph) -> dict[int, int]:
    """The immediate dominator of each node that can be reached; the entry is its own.

    Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm (2001), figure 3.
    """
    order = graph.order()
    rank = {node: index for index, node in enumerate(order)}
    found = {ENTRY: ENTRY}

    def meet(one: int, other: int) -> int:
        while one != other:
            while rank[one] > rank[other]:
                one = found[one]
            while rank[other] > rank[one]:
                other = found[other]
        return one

    changed = True
    while changed:
        changed = False
        for node in order[1:]:
            known = [each for each in graph.predecessors[node] if each in found]
            new = known[0]
            for each in known[1:]:
                new = meet(new, each)
            if found.get(node) != new:
                found[node] = new
                changed = True
    return found


def dominators(immediate: dict[int, int], node: int) -> Sequence[int]:
    """What every path from the entry to ``node`` passes, nearest first, without ``node``; empty for
    a node that cannot be reached.
    """
    chain: list[int] = []
    while node in immediate and immediate[node] != node:
        node = immediate[node]
        chain.append(node)
    return chain
