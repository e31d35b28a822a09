"""What was done to each region, and why."""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

log = logging.getLogger("pygraph_rt")


def _nothing() -> None:
    return None


@dataclass(eq=False)
class Region:
    """One partition of one compiled function, as the report shows it.

    state: "observing", "deciding", "serving", "ordinary" (no graph, for `reason`) or "released"
    (dynamo was reset). served, ordinary: calls with a graph and on the ordinary path. capture_ms:
    time spent capturing, in all. arena_bytes: memory a served call takes for its intermediates
    while it is launched. patched: graph nodes updated, over all served calls. choice: "graph" or
    "no graph", empty while nothing was measured; choice_why: the reason, a clause; candidates: what
    calls cost with each, milliseconds. host_values, host_bytes: CPU values that the compiled
    function copies to the GPU on each call, for all of its regions. host_notes: CPU values that
    were left where they are, and why.
    """

    name: str
    source: str = ""
    state: str = "observing"
    reason: str = ""
    note: str = ""
    graphs: int = 0
    nodes: int = 0
    words: int = 0
    served: int = 0
    ordinary: int = 0
    patched: int = 0
    arena_bytes: int = 0
    capture_ms: float = 0.0
    misses: dict[str, int] = field(default_factory=dict)
    choice: str = ""
    choice_why: str = ""
    candidates: dict[str, dict[str, Any]] = field(default_factory=dict)
    host_values: int = 0
    host_bytes: int = 0
    host_notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.refresh: Callable[[], None] = _nothing

    def decline(self, reason: str) -> None:
        """Leave the region to the ordinary path, with the reason as a clause."""
        self.state = "ordinary"
        self.reason = (
            f"{self.name} runs without a graph because {reason}"
            f"{f' (compiled from {self.source})' if self.source else ''}."
        )
        log.info("%s", self.reason)


class Regions:
    """The regions that are alive, in the order they were compiled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[weakref.ref[Region]] = []

    def add(self, region: Region) -> None:
        """Show a region in reports for as long as somebody holds it."""
        with self._lock:
            self._items = [r for r in self._items if r() is not None]
            self._items.append(weakref.ref(region))

    def alive(self) -> list[Region]:
        """Every region that still exists."""
        with self._lock:
            found = [r() for r in self._items]
        return [r for r in found if r is not None]


REGIONS = Regions()


@dataclass(frozen=True)
class Report:
    """A snapshot of all regions; prints as a table."""

    regions: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"regions": [dict(r) for r in self.regions]}

    def to_json(self) -> str:
        """The report as JSON text."""
        return json.dumps(self.to_dict(), indent=1)

    def __str__(self) -> str:
        if not self.regions:
            return "pygraph: nothing was compiled with this backend yet."
        head = (
            "region",
            "state",
            "graphs",
            "nodes",
            "served",
            "ordinary",
            "arena MiB",
            "capture ms",
        )
        rows = [head] + [
            (
                r["name"],
                r["state"],
                str(r["graphs"]),
                str(r["nodes"]),
                str(r["served"]),
                str(r["ordinary"]),
                f"{r['arena_bytes'] / 2**20:.1f}",
                f"{r['capture_ms']:.0f}",
            )
            for r in self.regions
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows
        ]
        lines += [r["reason"] for r in self.regions if r["reason"]]
        lines += [f"{r['name']}: {r['note']}." for r in self.regions if r["note"]]
        lines += list(dict.fromkeys(f"{note}." for r in self.regions for note in r["host_notes"]))
        return "\n".join(lines)


def report() -> Report:
    """What every region compiled with this backend does, and why."""
    regions = REGIONS.alive()
    for region in regions:
        region.refresh()
    return Report(tuple(asdict(region) for region in regions))


@cache
def notice(text: str) -> None:
    """Log a sentence at WARNING level, once a process."""
    log.warning("%s", text)
