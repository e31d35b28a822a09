"""Reads trace.json, the file that `pygraph_rt.trace` writes (docs/reference/trace-format.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pygraph_lint.errors import LintError

VERSION = 1
_EMPTY = "No ops traced"


class TraceError(LintError):
    """A trace cannot be used; the text says which, why, and what to do."""


class NothingRecorded(TraceError):
    """Neither an event nor a compiled callable is in any of the traces."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack. ``file`` is an absolute path, ``line`` counts from 1."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, ``count`` times. ``stack`` is outermost first and not empty.

    ``times`` has the first times: seconds from the start, and how long it took or None.
    """

    name: str
    kind: str
    frame: Frame | None
    stack: tuple[Frame, ...]
    count: int
    duration_s: float | None
    times: tuple[tuple[float, float | None], ...]
    reason: str
    gb_type: str
    gb_id: str
    hints: tuple[str, ...]
    compile_ids: tuple[str, ...]
    frame_skipped: bool
    raised: bool

    @property
    def is_empty(self) -> bool:
        """Whether a frame was skipped because it does nothing with tensors."""
        return self.kind == "skipped_frame" and _EMPTY in self.reason


@dataclass(frozen=True, slots=True)
class Region:
    """One compiled callable: one graph of one compilation of ``frame``."""

    frame: Frame
    compile_id: str
    calls: int


@dataclass(frozen=True, slots=True)
class Compilation:
    """One attempt to compile ``frame``, which ran in ``called_by``, the innermost other one."""

    compile_id: str
    frame: Frame
    called_by: Frame | None


@dataclass(frozen=True, slots=True)
class Reached:
    """The lines of a file that Dynamo traced, and those that Python executed (None: not known)."""

    traced: frozenset[int]
    executed: frozenset[int] | None


@dataclass(frozen=True)
class Trace:
    """One trace file. ``label`` tells it from others: the rank, or the file's name.

    ``detectors`` has the kinds of events that could be seen. ``run`` is the rest of the document.
    """

    path: Path
    label: str
    directory: str
    files: Mapping[str, Mapping[str, Any]]
    events: Sequence[Event]
    regions: Sequence[Region]
    compilations: Sequence[Compilation]
    reached: Mapping[str, Reached]
    detectors: frozenset[str]
    run: Mapping[str, Any]


def read_all(paths: Sequence[Path]) -> list[Trace]:
    """The traces of one program. Raises TraceError."""
    read = [_read(path) for path in paths]
    labels = [trace.label for trace in read]
    if len(set(labels)) < len(labels):
        labels = [str(path) for path in paths]
    traces = [Trace(**{**vars(t), "label": name}) for t, name in zip(read, labels, strict=True)]
    if not any(trace.events or trace.reached or trace.regions for trace in traces):
        names = ", ".join(str(path) for path in paths)
        raise NothingRecorded(
            f"{names}: nothing was recorded; does the program call torch.compile?"
        )
    return traces


def _read(path: Path) -> Trace:
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path}: is damaged, it is not JSON: {error}; record it again") from None
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(version, int):
        raise TraceError(f"{path}: is not a trace of pygraph_rt.trace")
    if version > VERSION:
        raise TraceError(
            f"{path}: has version {version} of the format, this pygraph-lint reads {VERSION}; "
            "update pygraph-lint"
        )
    try:
        return _trace(path, document)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise TraceError(f"{path}: is damaged ({what}); record it again") from None


def _trace(path: Path, document: dict[str, Any]) -> Trace:
    rank = document["rank"]
    kept = ("events", "regions", "compilations", "files", "reached", "detectors")
    return Trace(
        path=path,
        label=str(path.name) if rank is None else f"rank {rank}",
        directory=str(document["directory"]),
        files={str(file): dict(row) for file, row in document["files"].items()},
        events=[_event(row) for row in document["events"]],
        regions=[
            Region(_frame(row), row["compile_id"] or "", int(row["calls"]))
            for row in document["regions"]
        ],
        compilations=[
            Compilation(
                str(row["compile_id"]),
                _frame(row),
                _frame(row["called_by"]) if row["called_by"] else None,
            )
            for row in document.get("compilations", ())
        ],
        reached={
            file: Reached(
                frozenset(row["traced"]),
                None if row["executed"] is None else frozenset(row["executed"]),
            )
            for file, row in document["reached"]["files"].items()
        },
        detectors=frozenset(r["event"] for r in document["detectors"] if r["detector"]),
        run={
            **{key: value for key, value in document.items() if key not in kept},
            "command": [str(part) for part in document["command"]],
            "duration_s": float(document["duration_s"]),
            "exit": dict(document["exit"]),
            "notes": [str(note) for note in document["notes"]],
        },
    )


def _frame(row: Mapping[str, Any]) -> Frame:
    return Frame(str(row["file"]), int(row["line"]), str(row["function"]))


def _event(row: Mapping[str, Any]) -> Event:
    details = row.get("details") or {}
    # A break that another one led to is the other one, seen again.
    origin = details.get("cause") or {**details, **row}
    times = [(float(start), None if took is None else float(took)) for start, took in row["times"]]
    return Event(
        name=str(row["id"]),
        kind=str(row["kind"]),
        frame=_frame(row["frame"]) if row.get("frame") else None,
        stack=tuple(_frame(one) for one in row["stack"]) or (_frame(row),),
        count=int(row["count"]),
        duration_s=None if row["duration_s"] is None else float(row["duration_s"]),
        times=tuple(times),
        reason=" ".join(str(row["reason"]).split()),
        gb_type=str(origin.get("gb_type") or row.get("gb_type") or ""),
        gb_id=str(origin.get("gb_id") or row.get("gb_id") or ""),
        hints=tuple(str(hint) for hint in origin.get("hints") or ()),
        compile_ids=tuple(map(str, row.get("compile_ids") or ())),
        frame_skipped=bool(row.get("frame_skipped")),
        raised=bool(row.get("raised")),
    )
