"""Puts recorded events beside findings: same statement, same kind."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from pygraph_lint.findings import Finding
from pygraph_lint.trace.document import Event, Trace
from pygraph_lint.trace.sources import Code, Sources

# What an event is in the linter's words. Kinds that are no problem are not in the table.
PROBLEMS = {
    "graph_break": "graph break",
    "skipped_frame": "graph break",
    "compile_error": "error while compiling",
    "sync": "sync",
    "host_tensor": "host tensor",
    "recompile": "recompilation",
    "cache_limit": "recompilation limit",
    "graph_refused": "no CUDA graph",
    "compiled_before_trace": "compiled before tracing",
}
# What findings claim; of other kinds nothing is predicted.
PREDICTED = ("graph break", "sync", "host tensor")
_DETECTED_BY = {"graph break": "graph_break", "sync": "sync", "host tensor": "host_tensor"}

CONFIRMED, MISSED, OBSERVED = "confirmed", "missed", "observed"
REFUTED, NOT_REACHED, UNKNOWN = "refuted", "not reached", "unknown"


@dataclass
class Place:
    """What happened at one statement, of one kind. ``events`` are pairs of trace label and event.

    ``file`` is the name in the trace, ``lines`` the first and last line of the statement.
    ``hides`` are lines behind a break that never were compiled because of it. ``outside``: no
    compiled function was on the stack.
    """

    kind: str
    file: str
    lines: tuple[int, int]
    events: list[tuple[str, Event]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    hides: tuple[int, ...] = ()
    differs: str = ""
    outside: bool = False

    @property
    def status(self) -> str:
        """``confirmed``, ``missed``, or ``observed``: of this the linter predicts nothing."""
        if self.findings:
            return CONFIRMED
        once = self.kind == "sync" and self.outside and self.count == 1
        return MISSED if self.kind in PREDICTED and not once else OBSERVED

    @property
    def count(self) -> int:
        """How often, in the trace where it was most often."""
        counts: Counter[str] = Counter()
        for label, event in self.events:
            counts[label] += event.count
        return max(counts.values())

    @property
    def seconds(self) -> float | None:
        """How long it took, in the trace where it took longest; None where it is not known."""
        took: dict[str, float] = {}
        for label, event in self.events:
            if event.duration_s is not None:
                took[label] = took.get(label, 0.0) + event.duration_s
        return max(took.values(), default=None)

    @property
    def first(self) -> Event:
        """The event to show: one with torch's number where there is one."""
        events = [event for _, event in self.events]
        return next((event for event in events if event.gb_id), events[0])


@dataclass(frozen=True)
class Judged:
    """A finding and what became of it; ``why`` is one clause, empty for confirmed ones.

    ``by_kind`` has the status of each thing that it claims; one that happened confirms it.
    """

    finding: Finding
    file: str
    status: str
    why: str
    by_kind: Mapping[str, str]


@dataclass
class Joined:
    """The whole join. ``elsewhere`` are places in code that is not the user's own."""

    traces: Sequence[Trace]
    sources: Sources
    places: list[Place]
    elsewhere: list[Place]
    judged: list[Judged]

    def totals(self, kind: str | None = None) -> dict[str, int]:
        """Numbers of findings and places by status; of one kind, or of all."""
        counts: Counter[str] = Counter()
        for judged in self.judged:
            status = judged.status if kind is None else judged.by_kind.get(kind)
            if status is not None:
                counts[status] += 1
        for place in self.places:
            if kind in (None, place.kind):
                counts[MISSED] += place.status == MISSED
                counts[OBSERVED] += place.status == OBSERVED
                counts["places"] += place.status != OBSERVED
        names = (CONFIRMED, REFUTED, NOT_REACHED, UNKNOWN, MISSED, OBSERVED, "places")
        return {name: counts[name] for name in names}


def claims(finding: Finding) -> frozenset[str]:
    """What a finding says will happen, in kinds of events."""
    said = finding.consequences
    found = set()
    if said.get("compile") in ("break", "skipped") or said.get("fullgraph") == "error":
        found.add("graph break")
    if said.get("sync") == "yes":
        found.add("sync")
    if finding.event is not None and finding.event.kind.startswith("host."):
        found.add("host tensor")
    return frozenset(found)


def join(traces: Sequence[Trace], sources: Sources, findings: Iterable[Finding]) -> Joined:
    """Match the events of all traces with the findings."""
    places, elsewhere = _places(traces, sources)
    names = {str(code.path): file for file, code in sources.codes.items()}
    by_statement: dict[tuple[str, int], list[Finding]] = defaultdict(list)
    for finding in findings:
        file = names.get(finding.filename)
        if file is not None and claims(finding):
            line = sources.codes[file].statement(finding.location.row)[0]
            by_statement[file, line].append(finding)
    confirmed: dict[int, set[str]] = defaultdict(set)
    for place in places:
        matching = by_statement.get((place.file, place.lines[0]), ())
        place.findings = [finding for finding in matching if place.kind in claims(finding)]
        for finding in place.findings:
            confirmed[id(finding)].add(place.kind)
    reached = _Reached(traces, sources, places)
    judged = [
        reached.judge(finding, file, confirmed[id(finding)])
        for (file, _), group in by_statement.items()
        for finding in group
    ]
    judged.sort(key=lambda one: one.finding.sort_key)
    _mark_hidden(places, sources, traces)
    return Joined(traces, sources, places, elsewhere, judged)


def _places(traces: Sequence[Trace], sources: Sources) -> tuple[list[Place], list[Place]]:
    own: dict[tuple[str, str, int], Place] = {}
    other: dict[tuple[str, str, int], Place] = {}
    left_out = {*sources.changed, *sources.missing}
    for trace in traces:
        frames = [r.frame for r in trace.regions] + [c.frame for c in trace.compilations]
        compiled = {(frame.file, frame.function) for frame in frames}
        for event in trace.events:
            kind = PROBLEMS.get(event.kind)
            # The innermost line of the user's own: a library's line is not theirs to change.
            frame = next((f for f in reversed(event.stack) if f.file in sources.codes), None)
            if (
                kind is None
                or event.is_empty
                or (frame is None and event.stack[-1].file in left_out)
            ):
                continue
            shown = frame or event.stack[-1]
            code = sources.codes.get(shown.file)
            lines = code.statement(shown.line) if code else (shown.line, shown.line)
            table = own if frame else other
            new = Place(kind, shown.file, lines, outside=True)
            place = table.setdefault((kind, shown.file, lines[0]), new)
            place.events.append((trace.label, event))
            place.outside &= not any((f.file, f.function) in compiled for f in event.stack)
    for place in (*own.values(), *other.values()):
        place.differs = _difference(place, [trace.label for trace in traces])
    return list(own.values()), list(other.values())


def _difference(place: Place, labels: Sequence[str]) -> str:
    """What is not the same in all traces; empty where all is, or there is one trace."""
    counts = dict.fromkeys(labels, 0)
    for label, event in place.events:
        counts[label] += event.count
    if len(set(counts.values())) == 1:
        return ""
    return ", ".join(f"{label}: {count}" for label, count in counts.items())


class _Reached:
    """Says of findings without an event whether their lines were reached."""

    def __init__(self, traces: Sequence[Trace], sources: Sources, places: Sequence[Place]) -> None:
        self._sources = sources
        # Functions that raised on a break: what is compiled with fullgraph=True.
        self._full = {
            (place.file, sources.codes[place.file].function(place.lines[0]))
            for place in places
            if any(event.raised for _, event in place.events)
        }
        self._seen = frozenset.union(*(trace.detectors for trace in traces))
        self._traced: dict[str, set[int]] = defaultdict(set)
        self._executed: dict[str, set[int]] = defaultdict(set)
        # Executed lines are known of a file only if every trace that has the file knows them.
        self._unknown = {f for t in traces for f, r in t.reached.items() if r.executed is None}
        self._known = {f for t in traces for f in t.reached} - self._unknown
        for trace in traces:
            for file, reached in trace.reached.items():
                self._traced[file] |= reached.traced
                self._executed[file] |= reached.executed or set()

    def judge(self, finding: Finding, file: str, happened: Set[str]) -> Judged:
        """A finding of whose claims those in ``happened`` came true."""
        first, last = finding.location.row, finding.end_location.row
        last = min(last, self._sources.codes[file].statement(first)[1])
        rows = set(range(first, last + 1))
        traced, executed = bool(rows & self._traced[file]), bool(rows & self._executed[file])
        verdicts: dict[str, tuple[str, str]] = {}
        for kind in sorted(claims(finding)):
            if kind in happened:
                verdicts[kind] = (CONFIRMED, "")
            elif kind == "graph break" and self._no_break_here(finding, file):
                verdicts[kind] = (UNKNOWN, "compiled with fullgraph=True, where it is no break")
            else:
                verdicts[kind] = self._one(kind, traced, executed, file)
        # What Dynamo looked at is settled, whatever else of the finding is not known.
        order = (CONFIRMED, REFUTED, UNKNOWN, NOT_REACHED)
        status, why = min(verdicts.values(), key=lambda verdict: order.index(verdict[0]))
        return Judged(finding, file, status, why, {k: said for k, (said, _) in verdicts.items()})

    def _no_break_here(self, finding: Finding, file: str) -> bool:
        function = self._sources.codes[file].function(finding.location.row)
        return finding.consequences.get("fullgraph") == "ok" and (file, function) in self._full

    def _one(self, kind: str, traced: bool, executed: bool, file: str) -> tuple[str, str]:
        if _DETECTED_BY[kind] not in self._seen:
            return UNKNOWN, f"no detector for a {kind} in this run"
        if kind == "graph break":
            if traced:
                return REFUTED, "torch.compile traced the line and the graph did not break"
            if executed:
                return NOT_REACHED, "the line ran, but torch.compile did not trace it"
        elif executed and not traced:
            return REFUTED, f"the line ran without a {kind}"
        elif traced:
            return UNKNOWN, f"inside compiled code a {kind} has no line"
        if file in self._known or (file not in self._unknown and self._known):
            return NOT_REACHED, "the line did not run"
        if kind == "graph break":
            return NOT_REACHED, "torch.compile did not trace the line"
        return UNKNOWN, "which lines ran is not known; Python 3.12 or --coverage records it"


def _mark_hidden(places: Sequence[Place], sources: Sources, traces: Sequence[Trace]) -> None:
    """Note for each break that ended a frame's compilation the lines it kept from being traced."""
    for place in places:
        hidden: set[int] = set()
        for label, event in place.events:
            if place.kind == "graph break" and (event.frame_skipped or event.raised):
                trace = next(t for t in traces if t.label == label)
                hidden |= _behind(event, sources.codes[place.file], place, trace)
        place.hides = tuple(sorted(hidden))


def _behind(event: Event, code: Code, place: Place, trace: Trace) -> set[int]:
    """The first lines of statements behind a break, in its function, that were not traced."""
    span = code.function(place.lines[0])
    if span is None:
        return set()
    reached = trace.reached.get(place.file)
    traced = reached.traced if reached else frozenset()
    behind = range(place.lines[1] + 1, span[1] + 1)
    return {
        line
        for line in behind
        if code.statement(line)[0] == line and not traced & {line} and code.lines[line - 1].strip()
    }


def own_files(sources: Sources) -> list[Path]:
    """The files to check."""
    return sorted({code.path for code in sources.codes.values()})
