"""The join as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pygraph_lint.report import count, shown_path
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.trace import fix_order
from pygraph_lint.trace.advice import advice
from pygraph_lint.trace.join import (
    CONFIRMED,
    MISSED,
    NOT_REACHED,
    OBSERVED,
    PREDICTED,
    REFUTED,
    UNKNOWN,
    Joined,
    Judged,
    Place,
)

_SHOWN_ELSEWHERE = 10
_LINTER = {CONFIRMED: "found", MISSED: "missed", OBSERVED: "-"}


def render(joined: Joined, rules: Mapping[str, Rule]) -> str:
    """The whole report."""
    parts = [_heading, _happened, _repair, _not_happened, _elsewhere, _accuracy, _left_out]
    return "\n".join(
        text for part in parts if (text := "".join(f"{line}\n" for line in part(joined, rules)))
    )


def shown(joined: Joined, file: str, line: int) -> str:
    """A place as a user would type it."""
    code = joined.sources.codes.get(file)
    return f"{shown_path(str(code.path) if code else file)}:{line}"


def seconds(took: float | None) -> str:
    """A time with its unit; ``-`` where it is not known."""
    if took is None:
        return "-"
    return f"{took:.2f} s" if took >= 1 else f"{took * 1e3:.1f} ms"


def in_order(joined: Joined) -> list[Place]:
    """The places: breaks in the order to fix them, then the others by how long they took."""
    breaks = [step.place for step in fix_order.order(joined)]
    others = [place for place in joined.places if place.kind != "graph break"]
    others.sort(key=lambda p: (p.kind, -(p.seconds or 0.0), -p.count, p.file, p.lines))
    return breaks + others


def _heading(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    for trace in joined.traces:
        run = trace.run
        left = run["exit"]
        how = f"{left.get('kind', 'ended')}, exit code {left.get('code', '?')}"
        if left.get("error"):
            how += f" ({_short(str(left['error']), 100)})"
        command = " ".join(run["command"])
        yield (
            f"{trace.label}: {command}: {how}; torch {run.get('torch')}, {run.get('device')}, "
            f"{count(len(trace.regions), 'graph')}"
        )
        for note in run["notes"]:
            yield f"  note: {note}"


def _happened(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    places = in_order(joined)
    if not places:
        yield "Nothing to fix happened in your code."
        return
    rows = [("WHERE", "WHAT", "TIMES", "COST", "LINTER")]
    rows += [
        (
            shown(joined, place.file, place.lines[0]),
            place.kind,
            str(place.count),
            seconds(place.seconds),
            f"{_LINTER[place.status]} {', '.join(sorted({f.code for f in place.findings}))}",
        )
        for place in places
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]

    def line(row: tuple[str, ...]) -> str:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        cells += [row[2].rjust(widths[2]), row[3].rjust(widths[3]), row[4]]
        return "  ".join(cells).rstrip()

    yield line(rows[0])
    said_before: set[tuple[str, int, str]] = set()
    for place, row in zip(places, rows[1:], strict=True):
        yield line(row)
        for detail in _details(place, joined, rules):
            key = (place.file, place.lines[0], detail)
            if key not in said_before:
                yield f"    {detail}"
            said_before.add(key)


def _details(place: Place, joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    code = joined.sources.codes[place.file]
    if place.lines[0] <= len(code.lines):
        yield code.lines[place.lines[0] - 1].strip()
    event = place.first
    why = f"{event.gb_id} {event.gb_type}".strip() or event.reason
    if why:
        yield f"why: {_short(why)}"
    if event.raised:
        yield "ended with an error: nothing behind it was compiled"
    else:
        yield from _uncompiled(place)
    if place.hides:
        lines = count(len(place.hides), "statement")
        yield f"hides {lines} behind it ({_ranges(place.hides)}); fix it first"
    if place.differs:
        yield f"differs: {place.differs}"
    text = advice(place, rules)
    if text:
        yield f"do: {_short(text, 200)}"


def _uncompiled(place: Place) -> Iterator[str]:
    """The functions that torch gives up because of what is at a place; a caller's, maybe."""
    skipped = [one for _, one in place.events if one.frame_skipped]
    for name in dict.fromkeys(one.frame.function for one in skipped if one.frame is not None):
        yield f"the whole of `{name}` runs without torch.compile because of it"


def _short(text: str, most: int = 160) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _ranges(lines: tuple[int, ...]) -> str:
    return f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"


def _repair(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    steps = fix_order.order(joined)
    if not steps:
        return
    now = fix_order.number_of_graphs(joined.traces)
    yield f"Fix in this order; now there {'is' if now == 1 else 'are'} {count(now, 'graph')}:"
    for number, step in enumerate(steps, 1):
        where = shown(joined, step.place.file, step.place.lines[0])
        yield f"  {number}. {where}  graphs afterwards: {step}"


def _not_happened(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    wordings = (
        (REFUTED, "Found by the linter, but it did not happen"),
        (NOT_REACHED, "Found by the linter, but this run did not get there"),
        (UNKNOWN, "Found by the linter, and this run cannot tell"),
    )
    for status, wording in wordings:
        found = [one for one in joined.judged if one.status == status]
        if found:
            yield f"{wording}:"
            yield from (f"  {_judged(one, joined)}" for one in found)


def _judged(one: Judged, joined: Joined) -> str:
    place = shown(joined, one.file, one.finding.location.row)
    return f"{place} {one.finding.code} {one.finding.name}: {one.why}"


def _elsewhere(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    places = joined.elsewhere
    if not places:
        return
    yield "In libraries, not in your code:"
    for place in sorted(places, key=lambda p: -p.count)[:_SHOWN_ELSEWHERE]:
        event = place.first
        why = f"{event.gb_id} {event.gb_type}".strip() or event.reason
        times = count(place.count, "time")
        yield f"  {place.file}:{place.lines[0]}  {place.kind}, {times}: {_short(why, 100)}"
    if len(places) > _SHOWN_ELSEWHERE:
        yield f"  ... and {len(places) - _SHOWN_ELSEWHERE} more (`--output-format json` has all)"


def _accuracy(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    yield "The linter on your code, in this run:"
    for kind in PREDICTED:
        counts = joined.totals(kind)
        happened, judged = counts["places"], counts[CONFIRMED] + counts[REFUTED]
        if not happened and not judged:
            continue
        found = happened - counts[MISSED]
        yield (
            f"  {kind}: recall {_share(found, happened)}, "
            f"precision {_share(counts[CONFIRMED], judged)}"
        )
    counts = joined.totals()
    yield (
        f"  {counts[CONFIRMED]} confirmed, {counts[MISSED]} missed, {counts[REFUTED]} refuted, "
        f"{counts[NOT_REACHED]} not reached, {counts[UNKNOWN]} unknown"
    )


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "0 of 0"


def _left_out(joined: Joined, rules: Mapping[str, Rule]) -> Iterator[str]:
    for file in joined.sources.changed:
        yield f"left out: {shown_path(file)} has changed since the trace; record it again"
    for file in joined.sources.missing:
        yield f"left out: {shown_path(file)} is not here"
