"""What a trace consists of, as plain data. docs/reference/trace-format.md describes the format."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

VERSION = 1
# Of one event that happens often, only the first times are kept; `count` counts them all.
KEPT_TIMES = 100
_EMPTY = "No ops traced"

KINDS = (
    "graph_break",
    "recompile",
    "cache_limit",
    "skipped_frame",
    "compile_error",
    "compiled",
    "compiled_before_trace",
    "sync",
    "host_tensor",
    "graph_served",
    "graph_refused",
)


class Frame(NamedTuple):
    """One frame of a stack. file: absolute path. line: from 1."""

    file: str
    line: int
    function: str


@dataclass
class Event:
    """Something that happened, once or `count` times in the same place for the same reason.

    stack: outermost first, the compiled function's callers left out. place: the innermost frame
    that is the user's. times: seconds since the start, and how long it took where that is known.
    """

    kind: str
    detector: str
    place: Frame
    stack: tuple[Frame, ...] = ()
    reason: str = ""
    gb_type: str = ""
    gb_id: str = ""
    guard: str = ""
    frame: Frame | None = None
    frame_skipped: bool | None = None
    raised: bool = False
    region: str = ""
    compile_ids: list[str] = field(default_factory=list)
    count: int = 0
    duration_s: float | None = None
    times: list[tuple[float, float | None]] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether a frame was given up because it does nothing with tensors."""
        return self.kind == "skipped_frame" and _EMPTY in self.reason

    def happened(self, time_s: float, duration_s: float | None = None) -> None:
        """Count one more time."""
        self.count += 1
        if len(self.times) < KEPT_TIMES:
            self.times.append((time_s, duration_s))
        if duration_s is not None:
            self.duration_s = (self.duration_s or 0.0) + duration_s

    def to_dict(self, name: str, end_line: int) -> dict[str, Any]:
        """As it is written; `name` is the event's id, `end_line` ends the statement at its line."""
        return {
            "id": name,
            "kind": self.kind,
            "detector": self.detector,
            "time_s": round(self.times[0][0], 6) if self.times else 0.0,
            "duration_s": _rounded(self.duration_s),
            "count": self.count,
            "times": [[round(start, 6), _rounded(took)] for start, took in self.times],
            **self.place._asdict(),
            "end_line": end_line,
            "stack": [frame._asdict() for frame in self.stack],
            "gb_type": self.gb_type or None,
            "gb_id": self.gb_id or None,
            "reason": self.reason,
            "guard": self.guard or None,
            "compile_ids": self.compile_ids,
            "frame": self.frame._asdict() if self.frame else None,
            "frame_skipped": self.frame_skipped,
            "raised": self.raised,
            "region": self.region or None,
            "details": self.details,
        }


@dataclass
class Region:
    """One compiled callable: a graph of one compilation of one frame.

    host_s: time inside the callable on the host, over all calls; device_s tells that on the GPU's
    stream. compile_s: time that the frame's compilation took, None for one that was compiled before
    the trace.
    """

    key: str
    name: str
    frame: Frame
    compile_id: str
    before_trace: bool = False
    calls: int = 0
    host_s: float = 0.0
    device_s: Callable[[], float | None] = lambda: None
    compile_s: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it is written."""
        return {
            "key": self.key,
            "name": self.name,
            **self.frame._asdict(),
            "compile_id": self.compile_id or None,
            "compiled_before_trace": self.before_trace,
            "calls": self.calls,
            "host_s": round(self.host_s, 6),
            "device_s": _rounded(self.device_s()),
            "compile_s": _rounded(self.compile_s),
        }


@dataclass(frozen=True)
class Compilation:
    """One attempt to compile a frame.

    called_by: the innermost frame around it that was compiled, too, or given up.
    """

    compile_id: str
    frame: Frame
    called_by: Frame | None

    def to_dict(self) -> dict[str, Any]:
        """As it is written."""
        around = self.called_by._asdict() if self.called_by else None
        return {"compile_id": self.compile_id, **self.frame._asdict(), "called_by": around}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 6)
