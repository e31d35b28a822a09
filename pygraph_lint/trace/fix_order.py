"""In which order to fix graph breaks, and how many graphs are left after each step.

A compiled function that breaks is a chain of segments: up to the first break, from there to the
next one, and so on. Each segment is compiled on its own and holds one graph, or none where it does
nothing with tensors. Fixing a break joins the segments on both of its sides, which then hold one
graph together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pygraph_lint.trace.document import Event, Trace
from pygraph_lint.trace.join import Joined, Place

EXACT, AT_MOST = "exactly", "at most"


@dataclass(frozen=True)
class Step:
    """One place to fix. ``graphs`` is the number of graphs afterwards, in all traces together.

    ``known`` says whether that is exact or at most so. ``uncovers`` has the numbers (from 1) of the
    steps, up to this one, behind which there is code that was never compiled: its graphs, which
    nobody can know, come on top.
    """

    place: Place
    graphs: int
    known: str
    uncovers: tuple[int, ...]

    def __str__(self) -> str:
        number = f"at most {self.graphs}" if self.known == AT_MOST else str(self.graphs)
        if not self.uncovers:
            return number
        steps = ", ".join(map(str, self.uncovers))
        return f"{number}, and what step{'s' * (len(self.uncovers) > 1)} {steps} uncovers"


def number_of_graphs(traces: Sequence[Trace]) -> int:
    """How many graphs were compiled or called."""
    return sum(len(trace.regions) for trace in traces)


def order(joined: Joined) -> list[Step]:
    """The breaks: first those that hide other lines, then by how often and how long they took."""
    breaks = [place for place in joined.places if place.kind == "graph break"]
    breaks.sort(key=_urgency)
    chains = {trace.label: _Chain(trace) for trace in joined.traces}
    steps: list[Step] = []
    exact = True
    uncovers: tuple[int, ...] = ()
    for number, place in enumerate(breaks, 1):
        fixed = [chains[label].fix(event) for label, event in place.events]
        exact = exact and all(fixed)
        if place.hides or any(e.frame_skipped or e.raised for _, e in place.events):
            uncovers = (*uncovers, number)
        graphs = sum(chain.graphs for chain in chains.values())
        steps.append(Step(place, graphs, EXACT if exact else AT_MOST, uncovers))
    return steps


def _urgency(place: Place) -> tuple[bool, int, int, float, str, int]:
    raised = any(event.raised for _, event in place.events)
    where = (place.file, place.lines[0])
    return (not raised, -len(place.hides), -place.count, -(place.seconds or 0.0), *where)


class _Chain:
    """The segments of one trace, joined break by break."""

    def __init__(self, trace: Trace) -> None:
        self._of: dict[str, str] = {}
        self._starts: dict[tuple[str, str, int], set[str]] = {}
        self._full = {region.compile_id for region in trace.regions if region.compile_id}
        # Graphs that belong to no compilation of this trace, or share one.
        self._more = len(trace.regions) - len(self._full)
        self._recompiled: set[str] = set()
        for event in trace.events:
            if event.frame is not None:
                start = (event.frame.file, event.frame.function, event.frame.line)
                self._starts.setdefault(start, set()).update(event.compile_ids)
            if event.kind in ("recompile", "cache_limit"):
                self._recompiled.update(event.compile_ids)
        for region in trace.regions:
            frame = region.frame
            start = (frame.file, frame.function, frame.line)
            self._starts.setdefault(start, set()).add(region.compile_id)

    def _root(self, name: str) -> str:
        while name in self._of:
            name = self._of[name]
        return name

    @property
    def graphs(self) -> int:
        """How many groups of segments hold a graph."""
        return len({self._root(name) for name in self._full}) + self._more

    def fix(self, event: Event) -> bool:
        """Join the segments on both sides of a break; whether the new number is exact."""
        if event.kind != "graph_break" or event.frame_skipped or event.raised:
            return False
        outer = event.stack[0]
        behind = self._starts.get((outer.file, outer.function, outer.line), set())
        behind = behind - set(event.compile_ids)
        if len(event.stack) > 1:
            # The called function has segments of its own; the caller may break at the next one.
            return False
        simple = len(event.compile_ids) == 1 and len(behind) == 1
        if not simple:
            # Which compilation continues in which is not recorded.
            return False
        for name in behind:
            self._join(event.compile_ids[0], name)
        return not {*event.compile_ids, *behind} & self._recompiled

    def _join(self, one: str, other: str) -> None:
        one, other = self._root(one), self._root(other)
        if one != other:
            self._of[other] = one
