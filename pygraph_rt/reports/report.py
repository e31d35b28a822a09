"""What was done to each region, and why."""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

import torch

from pygraph_rt.errors import ReportError
from pygraph_rt.reports.render import render
from pygraph_rt.shared_state import Shared

_MEASURED = ("median", "low", "high")
# Names in reports of earlier versions.
_RENAMED = {"ordinary": "unserved"}
log = logging.getLogger("pygraph_rt")


@dataclass(eq=False)
class Row:
    """One partition of one compiled function, as the report shows it.

    state: a value of `region.states.State`, or "deciding" (a trial is under way); where it is
    "refused" or "no graph", `reason` is a sentence. served, unserved: calls with a graph, and calls
    that ran compiled code. misses: why, and how often. capture_ms: time spent capturing, in all.
    compare_ms: and comparing the first calls of graphs with compiled code. arena_bytes: memory a
    served call takes for its intermediates while it is launched. graph_bytes: GPU memory that the
    driver keeps for the graphs between calls (an estimate by their nodes). launches: parts that the
    last graph is launched in. patched: graph nodes updated, over all served calls. choice: "graph"
    or "no graph", empty while nothing was measured; choice_why: the reason, a clause; candidates:
    what calls cost with each, milliseconds. moving_bytes, static_bytes: size of a call's inputs
    that may be elsewhere on each call (stock CUDA graphs copy these), and of parameters and others
    that stay. cuts: why the code is not one region with what comes before or after. host_values,
    host_bytes: CPU values that the compiled function copies to the GPU on each call, for all of its
    regions. host_notes: CPU values that were left where they are, and why.
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
    unserved: int = 0
    patched: int = 0
    arena_bytes: int = 0
    graph_bytes: int = 0
    launches: int = 1
    capture_ms: float = 0.0
    compare_ms: float = 0.0
    misses: dict[str, int] = field(default_factory=dict)
    choice: str = ""
    choice_why: str = ""
    candidates: dict[str, dict[str, Any]] = field(default_factory=dict)
    host_values: int = 0
    host_bytes: int = 0
    host_notes: list[str] = field(default_factory=list)
    moving_bytes: int = 0
    static_bytes: int = 0
    cuts: list[dict[str, str]] = field(default_factory=list)


class Watcher(Protocol):
    """Watches the calls of a region. deciding: whether it measures them for a choice."""

    deciding: bool

    def call(self, member: Any, run: Callable[[list[Any]], Any], args: list[Any]) -> Any:
        """One call of the region `member`, made by `run(args)`."""


class Region(Row):
    """A row whose region is in use.

    refresher: a weak reference to what brings the counters up to date. moving: arguments that may
    be elsewhere on each call. bypassed: whether calls run compiled code without asking the region.
    watcher: what is told of each call, and makes it.
    """

    def __init__(self, name: str, source: str = "") -> None:
        super().__init__(name, source)
        self.refresher: weakref.WeakMethod[Callable[[], None]] | None = None
        self.moving: frozenset[int] = frozenset()
        self.bypassed = False
        self.watcher: Watcher | None = None

    def refresh(self) -> None:
        """Bring the counters up to date; they are kept where they cost nothing on a call."""
        refresh = self.refresher and self.refresher()
        if refresh is not None:
            refresh()

    def note_inputs(self, args: Sequence[Any]) -> None:
        """Add up the inputs of a call; `moving` says which arguments may move."""
        sizes = {i: a.nbytes for i, a in enumerate(args) if isinstance(a, torch.Tensor)}
        self.moving_bytes = sum(size for i, size in sizes.items() if i in self.moving)
        self.static_bytes = sum(sizes.values()) - self.moving_bytes

    def sentence(self, reason: str) -> str:
        """A sentence that says why the region has no graph; `reason` is a clause."""
        source = f" (compiled from {self.source})" if self.source else ""
        return f"{self.name} runs without a graph because {reason}{source}."

    def decline(self, reason: str, state: str = "refused") -> None:
        """The region's compiled code runs without a graph from now on; `reason` is a clause."""
        self.state = state
        self.reason = self.sentence(reason)
        log.info("%s", self.reason)


class Regions:
    """The regions that are alive, in the order they were compiled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[weakref.ref[Region]] = []
        self._said: set[str] = set()

    def add(self, region: Region) -> None:
        """Show a region in reports for as long as somebody holds it."""
        with self._lock:
            self._items = [r for r in self._items if r() is not None]
            self._items.append(weakref.ref(region))

    def refreshed(self) -> list[Region]:
        """Every region that still exists, with its counters up to date."""
        with self._lock:
            found = [region for r in self._items if (region := r()) is not None]
        for region in found:
            region.refresh()
        return found

    def notice(self, text: str) -> None:
        """Log a sentence at WARNING level, once a process."""
        with self._lock:
            new = text not in self._said
            self._said.add(text)
        if new:
            log.warning("%s", text)


REGIONS = Shared(Regions)


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

    @classmethod
    def from_json(cls, text: str) -> Report:
        """A report that `to_json` made. Raises ReportError for any other text."""
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ReportError(f"this is not JSON: {error}") from None
        if isinstance(found, dict) and "detectors" in found:
            raise ReportError("this is not a report but a trace; see `pygraph-lint trace --join`")
        regions = found.get("regions") if isinstance(found, dict) else None
        if not isinstance(regions, list) or not all(isinstance(r, dict) for r in regions):
            raise ReportError('this is not a report: it has no list "regions"')
        known = {f.name for f in fields(Row)}
        rows = []
        for region in regions:
            try:
                region = {_RENAMED.get(k, k): v for k, v in region.items()}
                row = asdict(Row(**{k: v for k, v in region.items() if k in known}))
            except TypeError:
                raise ReportError("this is not a report: a region has no name") from None
            _check_types(row)
            rows.append(row)
        return cls(tuple(rows))

    def __str__(self) -> str:
        return render(self.regions)


def _check_types(row: dict[str, Any]) -> None:
    """Raise ReportError where a value is of another type than the field's default."""
    model = asdict(Row(""))
    for name, value in row.items():
        wanted = (int, float) if isinstance(model[name], (int, float)) else type(model[name])
        if not isinstance(value, wanted):
            raise ReportError(f"this is not a report: {name} of a region is {value!r}")
    numbers = [s.get(k) for s in _entries(row["candidates"].values()) for k in _MEASURED]
    if not all(isinstance(n, (int, float)) for n in numbers):
        raise ReportError("this is not a report: a candidate's cost is not a number")
    for cut in _entries(row["cuts"]):
        if not all(isinstance(text, str) for text in cut.values()):
            raise ReportError("this is not a report: a cut is not made of texts")


def _entries(values: Iterable[Any]) -> list[dict[str, Any]]:
    found = list(values)
    if not all(isinstance(value, dict) for value in found):
        raise ReportError("this is not a report: an entry of a region is not an object")
    return found


def report() -> Report:
    """What every region compiled with this backend does, and why."""
    return Report(tuple(asdict(region) for region in REGIONS().refreshed()))
