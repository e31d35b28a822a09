"""A trace beside the project (docs/how-to/trace.md) in the editor: what happened, at the lines
where it happened, as long as these lines are as they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from pygraph_lint.errors import LintError
from pygraph_lint.files.paths import stamps
from pygraph_lint.files.sources import split_lines
from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.server.messages import Row, Traced
from pygraph_lint.trace.advice import advice
from pygraph_lint.trace.document import read_all
from pygraph_lint.trace.join import CONFIRMED, MISSED, REFUTED, Joined, Place, join, own_files
from pygraph_lint.trace.sources import find

# The names of traces at the top of a folder: of one process, and of the ranks of several.
PATTERNS = ("trace.json", "trace.rank*.json")
SOURCE = "pygraph-trace"


@dataclass
class Seen:
    """What traces say of one file. ``judged`` has status and reason of each finding, by code, row
    and column of the text at the time; ``extra`` is what no finding says, with its rows.
    """

    lines: list[str]
    judged: dict[tuple[str, int, int], Traced] = field(default_factory=dict)
    extra: list[Row] = field(default_factory=list)


def files_in(folder: Path) -> dict[Path, tuple[int, int]]:
    """The traces at the top of a folder, with size and time of change."""
    return stamps(path for pattern in PATTERNS for path in sorted(folder.glob(pattern)))


def load(
    folder: Path,
    paths: Sequence[Path],
    rules: Mapping[str, Rule],
    overrides: Mapping[str, Any],
    cache: Path | None,
    step: Callable[[], None],
) -> dict[Path, Seen]:
    """What traces say, by file. Raises LintError where they cannot be used.

    ``step`` is called between steps, and may raise. The findings are those of the texts on the
    disk, which are those of the traces, not those of unsaved texts.
    """
    with _inside(folder):
        traces = read_all(paths)
        sources = find(traces)
        runner = Runner(rules, overrides, cache_folder=cache, progress=lambda *_: step())
        joined = join(traces, sources, runner.check(own_files(sources)))
        return _by_file(joined, rules)


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Make a folder the current one, which relative paths of a trace are looked up in."""
    try:
        before = Path.cwd()
        os.chdir(folder)
    except OSError as error:
        raise LintError(f"{folder}: cannot be read: {error.strerror or error}") from None
    try:
        yield
    finally:
        os.chdir(before)


def _by_file(joined: Joined, rules: Mapping[str, Rule]) -> dict[Path, Seen]:
    codes = joined.sources.codes
    seen = {code.path: Seen(code.lines) for code in codes.values()}
    happened: dict[int, Place] = {}
    for place in joined.places:
        for finding in place.findings:
            happened[id(finding)] = place
        if not place.findings:
            seen[codes[place.file].path].extra.append(_row(place, rules))
    for one in joined.judged:
        said = one.why
        if one.status == CONFIRMED:
            said = _how_often(happened[id(one.finding)])
        key = _key(one.finding)
        seen[codes[one.file].path].judged[key] = Traced(one.status, said)
    return seen


def _key(finding: Finding) -> tuple[str, int, int]:
    return finding.code, finding.location.row, finding.location.column


def _how_often(place: Place) -> str:
    times = "once" if place.count == 1 else f"{place.count} times"
    seconds = place.seconds
    return f"happened {times}" + (f", {seconds:.3g} s" if seconds else "")


def _row(place: Place, rules: Mapping[str, Rule]) -> Row:
    """Something that happened and that no finding says."""
    event = place.first
    what = "that the linter missed" if place.status == MISSED else "in the trace"
    todo = advice(place, rules)
    return Row(
        code=event.gb_id or place.kind.replace(" ", "-"),
        name=event.gb_type or place.kind,
        message=f"{place.kind} {what}: {event.reason} ({_how_often(place)})",
        start=(place.lines[0], 1),
        end=(place.lines[1], 1),
        severity="warning" if place.status == MISSED else "information",
        about=(f"What to do: {todo}",) if todo else (),
        source=SOURCE,
        traced=Traced(place.status, _how_often(place)),
    )


def with_trace(rows: Iterable[Row], text: str, seen: Seen) -> tuple[Row, ...]:
    """The findings of a text, in their order, with what a trace says of them; then what else it
    says. Lines that an edit changed since the trace have lost what it said; the others keep it.
    """
    now = split_lines(text)
    kept = _same_at_start(seen.lines, now)
    moved = len(now) - len(seen.lines)
    rest = _same_at_start(seen.lines[kept:][::-1], now[kept:][::-1])
    tail = len(seen.lines) - rest  # rows behind this one are at the end that is the same

    def then(row: int) -> int | None:
        """The row that a row of today had in the trace."""
        if row <= kept:
            return row
        return row - moved if row - moved > tail else None

    found = [_judged(row, then(row.start[0]), seen) for row in rows]
    for row in seen.extra:
        first, last = row.start[0], row.end[0]
        if last <= kept:
            found.append(_at_code(row, now, 0))
        elif first > tail:
            found.append(_at_code(row, now, moved))
    return tuple(found)


def _same_at_start(one: Sequence[str], other: Sequence[str]) -> int:
    """With how many equal elements two sequences begin."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _judged(row: Row, line: int | None, seen: Seen) -> Row:
    traced = seen.judged.get((row.code, line, row.start[1])) if line is not None else None
    if traced is None:
        return row
    if traced.status == CONFIRMED:
        return replace(row, traced=traced, message=f"{row.message} (trace: {traced.said})")
    if traced.status == REFUTED:
        message = f"{row.message} (trace: did not happen, {traced.said})"
        return replace(row, traced=traced, message=message, severity="hint")
    return replace(row, traced=traced)


def _at_code(row: Row, lines: Sequence[str], moved: int) -> Row:
    """A row moved by some lines, around the code of its lines."""
    first, last = row.start[0] + moved, row.end[0] + moved
    text = lines[first - 1]
    start = len(text) - len(text.lstrip()) + 1
    return replace(row, start=(first, start), end=(last, len(lines[last - 1].rstrip()) + 1))
