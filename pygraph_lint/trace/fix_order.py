"""In which order to fix graph breaks, and how many graphs are left after each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pygraph_lint.trace.document import Trace
from pygraph_lint.trace.join import Joined, Place
from pygraph_lint.trace.segments import Segments

EXACT, ABOUT = "exactly", "about"


@dataclass(frozen=True)
class Step:
    """One place to fix. ``graphs`` is the number of graphs afterwards, in all traces together.

    ``known`` says whether that is certain. ``uncovers`` has the numbers (from 1) of the
    steps, up to this one, behind which there is code that was never compiled: its graphs, which
    nobody can know, come on top.
    """

    place: Place
    graphs: int
    known: str
    uncovers: tuple[int, ...]

    def __str__(self) -> str:
        number = f"about {self.graphs}" if self.known == ABOUT else str(self.graphs)
        if not self.uncovers:
            return number
        *others, last = map(str, self.uncovers)
        if others:
            return f"{number}, and what steps {', '.join(others)} and {last} uncover"
        return f"{number}, and what step {last} uncovers"


def number_of_graphs(traces: Sequence[Trace]) -> int:
    """How many graphs were compiled or called."""
    return sum(len(trace.regions) for trace in traces)


def order(joined: Joined) -> list[Step]:
    """The breaks: first those that hide other lines, then by how often and how long they took."""
    breaks = [place for place in joined.places if place.kind == "graph break"]
    breaks.sort(key=_urgency)
    segments = {trace.label: Segments(trace) for trace in joined.traces}
    steps: list[Step] = []
    uncovers: tuple[int, ...] = ()
    own = True
    for number, place in enumerate(breaks, 1):
        code = joined.sources.codes.get(place.file)
        assigned = code.assigned(place.lines[0]) if code else set()
        for label, event in place.events:
            segments[label].fix(event, assigned)
            # Who cannot change a library takes its call out, which changes more than the break.
            own &= event.stack[-1].file == place.file
        if place.hides or any(e.frame_skipped or e.raised for _, e in place.events):
            uncovers = (*uncovers, number)
        counts = [one.count() for one in segments.values()]
        known = EXACT if own and all(certain for _, certain in counts) else ABOUT
        steps.append(Step(place, sum(graphs for graphs, _ in counts), known, uncovers))
    return steps


def _urgency(place: Place) -> tuple[bool, int, int, float, str, int]:
    raised = any(event.raised for _, event in place.events)
    where = (place.file, place.lines[0])
    return (not raised, -len(place.hides), -place.count, -(place.seconds or 0.0), *where)
