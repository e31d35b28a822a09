"""The events of a file's training loops, and of its functions that training loops call."""

from __future__ import annotations

from collections.abc import Iterator

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.domain.region import Region
from pygraph_lint.analysis.loops.calls import HOST
from pygraph_lint.analysis.program.facts import ModuleFacts
from pygraph_lint.analysis.program.parameters import holds_of_arrays
from pygraph_lint.analysis.regions.training_loops import LoopRegions
from pygraph_lint.analysis.syntax.spans import Span

# What the events of compiled code are called where nothing is traced.
_KINDS = {
    **dict.fromkeys(
        ("sync.item", "sync.number", "sync.bool", "sync.tolist", "sync.copy", "sync.numpy"),
        "loop.read",
    ),
    **dict.fromkeys(("sync.math", "sync.equal"), "loop.read"),
    "sync.format": "loop.print",
    **dict.fromkeys(
        ("branch.if", "branch.ternary", "branch.while", "branch.not", "branch.assert"),
        "loop.branch",
    ),
    **dict.fromkeys(("branch.finite-guard", "branch.raise", "sync.builtin"), "loop.branch"),
}


def loop_events(module: ModuleFacts, loops: LoopRegions) -> Iterator[tuple[Region, Event]]:
    """Pairs of region and event; the event's needs are still to be proven."""
    near = loops.moving_near(module)
    seen: set[Span] = set()
    for region, event in _of_file(module, loops):
        seen.add(event.span)
        if loops.has_device(module, region.function):
            yield region, event
    if near is not None:
        yield from ((near, event) for event in module.loaders if event.span not in seen)


def _of_file(module: ModuleFacts, loops: LoopRegions) -> Iterator[tuple[Region, Event]]:
    if not loops.reaches(module):
        return
    bodies = loops.bodies(module)
    for body in bodies.steps:
        region = loops.of_start(body)
        if region is not None:
            yield from ((region, event) for event in body.events)
    for name in bodies.helpers:
        region = loops.of_function(name)
        if region is not None:
            yield from ((region, event) for event in bodies.helpers[name].events)
            continue
        region = loops.of_model(name)
        if region is not None:
            events = bodies.helpers[name].events
            yield from ((region, event) for event in events if _is_copy_from_host(event))
    for function in module.functions.values():
        region = loops.of_function(function.name)
        if region is None or any(bodies):
            continue
        for event in function.events:
            kind = _KINDS.get(event.kind)
            doubtful = any(map(holds_of_arrays, event.evidence))
            if kind is not None and not doubtful:
                said = tuple(_of_result(line, event) for line in event.evidence)
                yield region, event._replace(kind=kind, notes=(), evidence=said)


def _is_copy_from_host(event: Event) -> bool:
    """Whether what is copied to the device was certainly made on the host."""
    return event.kind == "loop.copy" and HOST.why in event.evidence


def _of_result(line: str, event: Event) -> str:
    """Evidence about a parameter; where that is called, about what it returns."""
    called = {
        need.name.partition("|")[0]
        for need in event.needs
        if need.kind == "param" and "()" in need.name.split("|")
    }
    name = line.rpartition(" ")[2].strip("`")
    return f"`{name}()` returns a tensor" if name in called else line
