"""What changed from one trace to another."""

from __future__ import annotations

from collections.abc import Iterator

from pygraph_lint.trace.document import Trace
from pygraph_lint.trace.join import PROBLEMS

_Key = tuple[str, str, str, str]


def compare(before: Trace, after: Trace) -> str:
    """Numbers before and after, then what went, what is new, and what happens more or less often.

    Lines move when code changes, so a place is a file, a function and a reason.
    """
    old, new = _counted(before), _counted(after)
    lines = [f"{before.path} -> {after.path}"]
    lines += _numbers(before, after)
    groups = (
        ("gone", [key for key in old if key not in new]),
        ("new", [key for key in new if key not in old]),
        ("changed", [key for key in old if key in new and old[key][0] != new[key][0]]),
    )
    for word, keys in groups:
        for key in keys:
            lines.append(f"{word}: {_shown(key, old.get(key), new.get(key))}")
    if not any(keys for _, keys in groups):
        lines.append("The same events happened, equally often.")
    return "".join(f"{line}\n" for line in lines)


def _counted(trace: Trace) -> dict[_Key, tuple[int, int]]:
    """Number of times and first line of each problem."""
    found: dict[_Key, tuple[int, int]] = {}
    for event in trace.events:
        kind = PROBLEMS.get(event.kind)
        frame = event.stack[-1]
        if kind is not None:
            relative = trace.files.get(frame.file, {}).get("relative") or frame.file
            why = f"{event.gb_id} {event.gb_type}".strip() or event.reason
            key = (kind, str(relative), frame.function, why)
            count, line = found.get(key, (0, frame.line))
            found[key] = (count + event.count, line)
    return found


def _numbers(before: Trace, after: Trace) -> Iterator[str]:
    yield f"graphs: {len(before.regions)} -> {len(after.regions)}"
    for kind in dict.fromkeys(PROBLEMS.values()):
        numbers = [
            sum(event.count for event in trace.events if PROBLEMS.get(event.kind) == kind)
            for trace in (before, after)
        ]
        if any(numbers):
            yield f"{kind}: {numbers[0]} -> {numbers[1]}"


def _shown(key: _Key, old: tuple[int, int] | None, new: tuple[int, int] | None) -> str:
    kind, file, function, why = key
    times = f"{old[0] if old else 0} -> {new[0] if new else 0}"
    line = (new or old or (0, 0))[1]
    return f"{file}:{line} ({function}) {kind}, {times}: {why[:120]}"
