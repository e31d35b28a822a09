"""Which regions ran as a CUDA graph, by pygraph's own report."""

from __future__ import annotations

import os
from typing import Any

from pygraph_rt.reports.report import REGIONS, Region
from pygraph_rt.trace.model import Event, Frame

DETECTOR = "pygraph_rt.report"
_NOT_YET = ("observing", "deciding")


def served_now() -> dict[int, tuple[int, int]]:
    """Calls with a graph and without one, of every region, so that earlier ones are not counted."""
    return {id(region): (region.served, region.unserved) for region in REGIONS().refreshed()}


def decisions(before: dict[int, tuple[int, int]], at_s: float) -> list[Event]:
    """An event for each region that was called with a graph, and for each that has none."""
    found: list[Event] = []
    for region in REGIONS().refreshed():
        served, unserved = before.get(id(region), (0, 0))
        served, unserved = region.served - served, region.unserved - unserved
        if served:
            found.append(_event(region, "graph_served", served, "", at_s))
        if unserved and region.state not in _NOT_YET and region.reason:
            found.append(_event(region, "graph_refused", unserved, region.reason, at_s))
    return found


def _event(region: Region, kind: str, calls: int, reason: str, at_s: float) -> Event:
    file, _, line = region.source.rpartition(":")
    place = Frame(os.path.abspath(file) if file else "", int(line) if line.isdigit() else 0, "")
    event = Event(kind, DETECTOR, place, (place,), reason, details={"report": _row(region)})
    event.count, event.times = calls, [(at_s, None)]
    return event


def _row(region: Region) -> dict[str, Any]:
    names = ("name", "source", "state", "reason", "note", "served", "unserved", "misses", "cuts")
    return {name: getattr(region, name) for name in names}
