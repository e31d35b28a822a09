"""One trace: from `with pygraph_rt.trace() as t:` to its document."""

from __future__ import annotations

import datetime
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from pygraph_rt.trace import document as documents
from pygraph_rt.trace.model import Event
from pygraph_rt.trace.recorder import DYNAMO, Recorder, is_users
from pygraph_rt.trace.torch_hooks import DynamoHooks, graphs_before, missing


def first_paragraph(error: BaseException) -> str:
    """An error's type and the first paragraph of its text."""
    text = str(error).strip().split("\n\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class Trace:
    """Records what torch compiles, what it does not, and why, while the block runs."""

    def __init__(self, path: str | Path | None = None, command: list[str] | None = None) -> None:
        self.path = Path(path) if path is not None else None
        self.command = list(sys.argv) if command is None else command
        self.recorder = Recorder()
        self.exit: dict[str, Any] = {"kind": "block", "code": None, "error": None}
        self.notes: list[str] = []
        self.duration_s = 0.0
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._hooks = DynamoHooks(self.recorder)

    def __enter__(self) -> Trace:
        for graph in graphs_before():
            self.recorder.follow(graph, compile_s=None)
        self._hooks.install()
        self.recorder.began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.duration_s = time.perf_counter() - self.recorder.began
        self._hooks.remove()
        self.recorder.release()
        if error is not None and self.exit["kind"] == "block":
            self.exit = {"kind": "block", "code": None, "error": first_paragraph(error)}
        if self.path is not None:
            documents.write(self.to_dict(), self.path)

    @property
    def events(self) -> list[Event]:
        """What happened until now."""
        return [*self.recorder.events.values(), *self._compiled_before()]

    def _compiled_before(self) -> list[Event]:
        """Frames whose compiled code ran here but was made before; their breaks are unknown."""
        found: dict[Any, Event] = {}
        for region in self.recorder.regions.values():
            if region.before_trace and region.calls:
                event = found.setdefault(
                    region.frame,
                    Event(
                        "compiled_before_trace",
                        "compiled callables",
                        region.frame,
                        (region.frame,),
                        "compiled before tracing began; its graph breaks are not known",
                        frame=region.frame,
                    ),
                )
                event.count += region.calls
                event.compile_ids += [region.compile_id] if region.compile_id else []
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """The trace as docs/trace-format.md describes it."""
        regions = [r for r in self.recorder.regions.values() if r.calls or not r.before_trace]
        run = {
            "directory": str(Path.cwd()),
            "command": self.command,
            "started": self._started.isoformat(timespec="milliseconds"),
            "duration_s": round(self.duration_s, 6),
            "exit": self.exit,
            "notes": self.notes,
        }
        return documents.document(run, self._detectors(), self.events, regions, self._reached())

    def _detectors(self) -> list[dict[str, Any]]:
        lacking = missing()
        rows = [
            ("graph_break", DYNAMO, ["graph breaks", "frames", "refused frames"], ""),
            ("recompile", DYNAMO, ["recompilations"], ""),
            ("cache_limit", DYNAMO, ["frames"], ""),
            ("skipped_frame", DYNAMO, ["frames"], "frames without tensors are not reported"),
            ("compiled_before_trace", "compiled callables", ["compiled callables"], ""),
        ]
        return [
            {
                "event": kind,
                "detector": None if set(needs) & set(lacking) else name,
                "misses": misses,
            }
            for kind, name, needs, misses in rows
        ]

    def _reached(self) -> dict[str, Any]:
        lines = self.recorder.traced_lines
        files = {
            file: {"traced": sorted(found), "executed": None}
            for file, found in sorted(lines.items())
            if is_users(file)
        }
        return {"how": ["dynamo"], "files": files}
