"""What changed from one trace to another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pygraph_lint.trace.document import Event, Trace
from pygraph_lint.trace.join import PROBLEMS

_Key = tuple[str, str, str, str]
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass
class _Seen:
    """How often a problem was there, its first line, and its reason then."""

    count: int
    line: int
    why: str


def compare(before: Trace, after: Trace) -> str:
    """Numbers before and after, then what went, what is new, and what happens more or less often.

    Lines move when code changes, so a place is a file, a function and a reason; a reason may hold
    numbers of one run, such as the value that a guard is for.
    """
    old, new = _counted(before), _counted(after)
    lines = [f"{before.path} -> {after.path}"]
    lines += _numbers(before, after)
    groups = (
        ("gone", [key for key in old if key not in new]),
        ("new", [key for key in new if key not in old]),
        ("changed", [key for key in old if key in new and old[key].count != new[key].count]),
    )
    for word, keys in groups:
        for key in keys:
            lines.append(f"{word}: {_shown(key, old.get(key), new.get(key))}")
    if not any(keys for _, keys in groups):
        lines.append("The same events happened, equally often.")
    return "".join(f"{line}\n" for line in lines)


def _counted(trace: Trace) -> dict[_Key, _Seen]:
    """Each problem of a trace."""
    found: dict[_Key, _Seen] = {}
    for event in _problems(trace):
        frame = event.stack[-1]
        relative = trace.files.get(frame.file, {}).get("relative") or frame.file
        why = f"{event.gb_id} {event.gb_type}".strip() or event.reason
        key = (PROBLEMS[event.kind], str(relative), frame.function, _NUMBER.sub("N", why))
        found.setdefault(key, _Seen(0, frame.line, why)).count += event.count
    return found


def _problems(trace: Trace) -> Iterator[Event]:
    return (event for event in trace.events if event.kind in PROBLEMS and not event.is_empty)


def _numbers(before: Trace, after: Trace) -> Iterator[str]:
    yield f"graphs: {len(before.regions)} -> {len(after.regions)}"
    for kind in dict.fromkeys(PROBLEMS.values()):
        numbers = [
            sum(event.count for event in _problems(trace) if PROBLEMS[event.kind] == kind)
            for trace in (before, after)
        ]
        if any(numbers):
            yield f"{kind}: {numbers[0]} -> {numbers[1]}"


def _shown(key: _Key, old: _Seen | None, new: _Seen | None) -> str:
    kind, file, function, _ = key
    times = f"{old.count if old else 0} -> {new.count if new else 0}"
    seen = new or old or _Seen(0, 0, "")
    return f"{file}:{seen.line} ({function}) {kind}, {times}: {seen.why[:120]}"
