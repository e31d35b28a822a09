"""Fail when code breaks graphs, waits for the GPU, or recompiles more than a test allows."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator

from pygraph_rt.errors import TraceError
from pygraph_rt.trace import linter
from pygraph_rt.trace.model import Event
from pygraph_rt.trace.session import Trace

SHOWN = 20


class ExpectationFailed(TraceError, AssertionError):
    """What happened is not what was expected.

    The message lists each place and its reason and, where the linter is installed, what it says.
    """


@contextlib.contextmanager
def expect(
    *,
    graph_breaks: int | None = 0,
    syncs: int | None = None,
    max_recompiles: int | None = None,
    allow_nothing: bool = False,
    fresh: bool = True,
) -> Iterator[Trace]:
    """Check what torch.compile does in a block. None: not checked.

    graph_breaks: how many different graph breaks, frames given up for one included. syncs: how
    often the host waits for the GPU, or would wait where there is none. max_recompiles: at most so
    many recompilations; a frame given up at the limit always fails then. allow_nothing: do not fail
    when nothing is compiled. fresh: compile everything anew (`torch._dynamo.reset()`), so that a
    block is judged the same whether or not its code was compiled before.

    Raises ExpectationFailed at the end of the block. An exception of the block goes through.
    """
    if fresh:
        importlib.import_module("torch._dynamo").reset()
    with Trace() as trace:
        yield trace
    wrong = [
        *_breaks(trace, graph_breaks),
        *_syncs(trace, syncs),
        *_recompiles(trace, max_recompiles),
        *_compiled(trace, allow_nothing, graph_breaks is not None),
    ]
    if wrong:
        raise ExpectationFailed("\n".join(_text(wrong, trace)))


_Group = tuple[str, list[Event]]


def _text(wrong: list[_Group], trace: Trace) -> Iterator[str]:
    """The groups with their events, each with the linter's finding and fix."""
    advice = linter.advice(trace) if any(events for _, events in wrong) else {}
    for title, events in wrong:
        yield title
        for event in events[:SHOWN]:
            yield _line(event)
            said = advice.get((event.kind, event.place.file, event.place.line))
            if said:
                yield f"    {said}"
        if len(events) > SHOWN:
            yield f"  and {len(events) - SHOWN} more"
        if events and not advice:
            yield "  `pygraph-lint check FILE` says what to write instead."


def _line(event: Event) -> str:
    times = f" ({event.count} times)" if event.count > 1 else ""
    what = "the frame is skipped: " if event.frame_skipped else ""
    guard = f" after `{event.guard}` failed" if event.guard and event.kind != "graph_break" else ""
    number = f" [{event.gb_id}]" if event.gb_id else ""
    reason = "compiled again" if event.kind == "recompile" else event.reason
    place = f"{event.place.file}:{event.place.line}: in {event.place.function}"
    return f"  {place}: {what}{reason}{guard}{number}{times}"


def _of(trace: Trace, *kinds: str) -> list[Event]:
    return [event for event in trace.events if event.kind in kinds]


def _breaks(trace: Trace, expected: int | None) -> list[_Group]:
    """One break may be met in several compilations, and from several callers. A frame that is given
    up, or fails to compile, counts as one unless a break in it, or the one that it goes on after,
    says why.
    """
    broken = _of(trace, "graph_break")
    explained = {event.frame for event in broken} | {_line_of(event) for event in broken}
    given_up = [
        event
        for event in _of(trace, "skipped_frame", "compile_error")
        if not event.is_empty and not explained & {event.frame, _line_of(event)}
    ]
    places = {(e.place.file, e.place.line, e.gb_type): e for e in (*broken, *given_up)}
    if expected is None or len(places) == expected:
        return []
    what = "different graph break" if len(places) > 1 else "graph break"
    title = f"{_number(len(places), what)}, {expected} expected:"
    return [(title, list(places.values()))]


def _line_of(event: Event) -> tuple[str, int]:
    return event.place.file, event.place.line


def _number(count: int, what: str) -> str:
    return f"{count} {what}" + ("s" if count != 1 else "")


def _syncs(trace: Trace, expected: int | None) -> list[_Group]:
    events = _of(trace, "sync")
    found = sum(event.count for event in events)
    if expected is None or found == expected:
        return []
    return [(f"{_number(found, 'host-device sync')}, {expected} expected:", events)]


def _recompiles(trace: Trace, most: int | None) -> list[_Group]:
    if most is None:
        return []
    events = _of(trace, "recompile")
    found = sum(event.count for event in events)
    limits = _of(trace, "cache_limit")
    wrong: list[_Group] = [("given up at the recompilation limit:", limits)] if limits else []
    if found > most:
        wrong.append((f"{_number(found, 'recompilation')}, at most {most} expected:", events))
    return wrong


def _compiled(trace: Trace, allow_nothing: bool, breaks_matter: bool) -> list[_Group]:
    before = _of(trace, "compiled_before_trace")
    if before and breaks_matter:
        title = "compiled before the block, so its graph breaks are not known; use fresh=True:"
        return [(title, before)]
    if allow_nothing or before or _of(trace, "compiled", "graph_break", "compile_error"):
        return []
    return [
        ("nothing was compiled; is torch.compile applied, and called? (allow_nothing=True)", [])
    ]
