"""One trace: from `with pygraph_rt.trace() as t:` to its document."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import time
import weakref
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any

from pygraph_rt.errors import TraceError
from pygraph_rt.shared_state import Shared
from pygraph_rt.trace import document as documents
from pygraph_rt.trace import graphs
from pygraph_rt.trace.lines import MonitoredLines, executed_lines
from pygraph_rt.trace.model import Event
from pygraph_rt.trace.recorder import DYNAMO, Recorder, is_users
from pygraph_rt.trace.syncs import Syncs
from pygraph_rt.trace.torch_hooks import DynamoHooks, graphs_before, missing

# One trace at a time: hooks of two would see each other.
_RUNNING: Shared[list[Any]] = Shared(list)
_SUMMARY = (
    ("graph_break", "graph break", "graph breaks"),
    ("recompile", "recompilation", "recompilations"),
    ("cache_limit", "frame given up at the recompilation limit", "frames given up at the limit"),
    ("sync", "host-device sync", "host-device syncs"),
    ("skipped_frame", "frame given up", "frames given up"),
    ("compile_error", "error while compiling", "errors while compiling"),
    ("host_tensor", "host tensor in compiled code", "host tensors in compiled code"),
    ("graph_refused", "region without a CUDA graph", "regions without a CUDA graph"),
)


def first_paragraph(error: BaseException) -> str:
    """An error's type and the first paragraph of its text."""
    text = str(error).strip().split("\n\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def say(text: str) -> None:
    """One line for the user, beside what the program prints."""
    with contextlib.suppress(OSError, ValueError, AttributeError):  # it may be closed, or None
        print(f"pygraph: {text}", file=sys.stderr, flush=True)


class Trace:
    """Records what torch compiles, what it does not, and why, while the block runs.

    path: where to write the trace at the end, nowhere if None. coverage: also note which lines run
    on Python 3.11 and earlier, where that is slow. Raises TraceError when a trace is running.
    """

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        coverage: bool = False,
        command: list[str] | None = None,
    ) -> None:
        # The program may change its folder before the end.
        self.path = Path(os.path.abspath(path)) if path is not None else None
        self.command = list(sys.argv) if command is None else command
        self.recorder = Recorder()
        self.exit: dict[str, Any] = {"kind": "block", "code": None, "error": None}
        self.duration_s = 0.0
        self._directory = str(Path.cwd())
        self._coverage = coverage
        self._executed: Any = None
        self._started = datetime.datetime.now(datetime.timezone.utc)
        self._syncs = Syncs(self.recorder)
        self._hooks = DynamoHooks(self.recorder, self._syncs)
        self._served_before: dict[int, tuple[int, int]] = {}
        self._written = False

    def start(self) -> None:
        """Begin to record."""
        if self.duration_s:
            raise TraceError("A trace records one block; begin another one with a new trace().")
        running = _RUNNING()
        if any(found() is not None for found in running):
            raise TraceError(
                "A trace is already running in this process; end it before another one begins."
            )
        running[:] = [weakref.ref(self)]
        _AT_FORK()
        self._served_before = graphs.served_now()
        for graph in graphs_before():
            self.recorder.follow(graph, compile_s=None)
        self._hooks.install()
        self._syncs.install()
        self.recorder.began = time.perf_counter()
        self._executed = executed_lines(is_users, self._coverage)
        if isinstance(self._executed, MonitoredLines):
            self._syncs.lines = self._executed

    def stop(self) -> None:
        """End, and write the file. Raises OSError when it cannot be written."""
        if self._executed is not None:
            self._executed.stop()
        self.duration_s = time.perf_counter() - self.recorder.began
        self._leave()
        for event in graphs.decisions(self._served_before, self.duration_s):
            self.recorder.keep(event)
        if self.path is not None:
            documents.write(self.to_dict(), self.path)
            self._written = True

    def _leave(self) -> None:
        _RUNNING().clear()
        self._syncs.lines = None
        self._syncs.remove()
        self._hooks.remove()
        self.recorder.release()

    def __enter__(self) -> Trace:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.exit = {"kind": "block", "code": None, "error": first_paragraph(error)}
        if not _RUNNING():  # in a child that was forked inside the block
            return
        try:
            self.stop()
        except OSError as failed:
            if error is None:
                raise
            # The program's own error goes on to its caller.
            say(f"{self.path} cannot be written: {failed.strerror or failed}")

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

    def counts(self) -> Counter[str]:
        """How often each kind of event happened, without frames that have nothing to compile."""
        found: Counter[str] = Counter()
        for event in self.events:
            found[event.kind] += 0 if event.is_empty else event.count
        return found

    def summary(self) -> str:
        """One line for the user: what was seen, and where it has been written."""
        counts = self.counts()
        parts = [
            f"{counts[kind]} {one if counts[kind] == 1 else many}"
            for kind, one, many in _SUMMARY
            if counts[kind]
        ]
        compiled = any(counts[k] for k in ("compiled", "graph_break", "compile_error"))
        if not compiled and not counts["compiled_before_trace"]:
            parts.insert(0, "nothing was compiled")
        if counts["compiled_before_trace"]:
            parts.append("some code was compiled before tracing began, its breaks are not known")
        text = ", ".join(parts) or "no graph breaks, recompilations or syncs"
        return f"{text}; written to {self.path}" if self._written else text

    def to_dict(self) -> dict[str, Any]:
        """The trace as docs/reference/trace-format.md describes it."""
        regions = [r for r in self.recorder.regions.values() if r.calls or not r.before_trace]
        run = {
            "directory": self._directory,
            "command": self.command,
            "started": self._started.isoformat(timespec="milliseconds"),
            "duration_s": round(self.duration_s, 6),
            "exit": self.exit,
            "notes": self.notes,
        }
        compilations, reached = self.recorder.compilations, self._reached()
        return documents.document(
            run, self._detectors(), self.events, regions, compilations, reached
        )

    @property
    def notes(self) -> list[str]:
        """What the events do not show, in sentences."""
        found = []
        counts = self.counts()
        if not counts["compiled"] and not counts["graph_break"]:
            found.append("Nothing was compiled while the trace ran.")
        if counts["compiled_before_trace"]:
            found.append("Some code was compiled before tracing began; its breaks are not known.")
        if self._syncs.others_missed:
            found.append("Syncs of other threads are not counted while one thread compiles.")
        if self._executed is None:
            found.append("Which lines ran is not known: use Python 3.12 or later, or --coverage.")
        return found

    def _detectors(self) -> list[dict[str, Any]]:
        lacking = set(missing())
        rows = [
            (kind, None if lacking & set(needs) else name, misses)
            for kind, name, needs, misses in _DETECTORS
        ]
        rows += self._syncs.detectors()
        return [{"event": kind, "detector": name, "misses": misses} for kind, name, misses in rows]

    def _reached(self) -> dict[str, Any]:
        traced = self.recorder.traced_lines
        executed = self._executed.lines if self._executed is not None else {}
        files = {file for file in {*traced, *executed} if is_users(file)}
        return {
            "how": ["dynamo"] + ([self._executed.how] if self._executed is not None else []),
            "files": {
                file: {
                    "traced": sorted(traced.get(file, ())),
                    "executed": sorted(executed.get(file, ())) if self._executed else None,
                }
                for file in sorted(files)
            },
        }


_DETECTORS = (
    ("graph_break", DYNAMO, ("graph breaks", "frames", "refused frames"), ""),
    ("recompile", DYNAMO, ("recompilations",), ""),
    ("cache_limit", DYNAMO, ("frames",), ""),
    ("skipped_frame", DYNAMO, ("frames",), "frames without tensors are not reported"),
    ("compile_error", DYNAMO, ("frames",), "errors in compiled backward code"),
    ("compiled", DYNAMO, ("frames",), "compiled autograd"),
    (
        "compiled_before_trace",
        "compiled callables",
        ("compiled callables",),
        "frames without a graph",
    ),
    ("graph_refused", "pygraph_rt.report and Inductor's counter", ("CUDA graph skips",), ""),
    ("graph_served", "pygraph_rt.report", (), "CUDA graphs of other backends"),
)


def _register() -> None:
    os.register_at_fork(after_in_child=_forget_in_child)


_AT_FORK: Shared[None] = Shared(_register)


def _forget_in_child() -> None:
    """A forked child is not the program that was traced: it records and writes nothing."""
    for reference in list(_RUNNING()):
        trace = reference()
        if trace is not None:
            trace.recorder.abandon()
            trace._syncs.abandon()
            if trace._executed is not None:
                trace._executed.stop()
            trace._leave()
    _RUNNING().clear()
