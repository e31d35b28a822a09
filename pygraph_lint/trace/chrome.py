"""The events as a Chrome trace, which opens in Perfetto (ui.perfetto.dev) and chrome://tracing.

Source: "Trace Event Format", Google. Times are in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pygraph_lint.trace.document import Event, Trace
from pygraph_lint.trace.join import Joined


def render(joined: Joined) -> str:
    """The whole report: one process a trace, one row a kind of event."""
    events = [row for number, t in enumerate(joined.traces) for row in _rows(number, t, joined)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, indent=1) + "\n"


def _rows(process: int, trace: Trace, joined: Joined) -> Iterator[dict[str, Any]]:
    status = {
        (label, event.name): place.status
        for place in joined.places
        for label, event in place.events
    }
    kinds = sorted({event.kind for event in trace.events})
    name = {"ph": "M", "pid": process, "name": "process_name", "args": {"name": trace.label}}
    yield name
    for row, kind in enumerate(kinds):
        args = {"name": kind.replace("_", " ")}
        yield {"ph": "M", "pid": process, "tid": row, "name": "thread_name", "args": args}
    for event in trace.events:
        for start, took in event.times:
            yield {
                "name": _name(event),
                "cat": event.kind,
                "pid": process,
                "tid": kinds.index(event.kind),
                "ts": round(start * 1e6, 3),
                **({"ph": "i", "s": "t"} if took is None else {"ph": "X", "dur": took * 1e6}),
                "args": {
                    "place": f"{event.stack[-1].file}:{event.stack[-1].line}",
                    "reason": event.reason,
                    "linter": status.get((trace.label, event.name), "-"),
                },
            }


def _name(event: Event) -> str:
    return f"{event.gb_id} {event.gb_type}".strip() or event.reason or event.stack[-1].function
