"""Turns what the hooks report into events, counting the same event once."""

from __future__ import annotations

import functools
import os
import re
import sysconfig
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import torch

from pygraph_rt.trace.device_time import DeviceTime
from pygraph_rt.trace.host_tensors import meetings
from pygraph_rt.trace.model import Compilation, Event, Frame, Region
from pygraph_rt.trace.torch_hooks import Break, Compile, Graph, gb_ids, keep_out

_TORCH = str(Path(torch.__file__).parent) + "/"
_OWN = str(Path(__file__).parents[1]) + "/"
_STANDARD = tuple(sysconfig.get_paths()[name] + "/" for name in ("stdlib", "platstdlib"))
_SITE = tuple(sysconfig.get_paths()[name] + "/" for name in ("purelib", "platlib"))
_TYPED = "<ipython-input"  # what was typed into IPython
_COMPILE_ID_IN_REASON = re.compile(r"^\S*\d+/\d+(?:_\d+)?: ")
_GUARD_STACK = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_COMMENT = re.compile(r"\s{2,}# .*")
_NUMBER = re.compile(r"\d+")
_PARTS = re.compile(r"\n  (Explanation|Hint|Developer debug context): ")
KEPT_GUARDS = 20
DYNAMO = "dynamo"
INDUCTOR = "Inductor's CUDA graph skips"
GRAPHS = "Dynamo's graphs"


@functools.cache
def is_users(file: str) -> bool:
    """Whether a file is neither torch's, the recorder's, nor Python's own."""
    if file.startswith((_TORCH, _OWN)) or (file.startswith("<") and not file.startswith(_TYPED)):
        return False
    return file.startswith(_SITE) or not file.startswith(_STANDARD)


def is_installed(file: str) -> bool:
    """Whether a file belongs to an installed package."""
    return file.startswith(_SITE)


def _frame(place: Frame) -> Frame:
    file = place.file if place.file.startswith("<") else os.path.abspath(place.file)
    return Frame(file, place.line, place.function)


def users_place(stack: Sequence[Frame]) -> Frame:
    """The innermost frame of the user's; the innermost of all where none is."""
    return next((f for f in reversed(stack) if is_users(f.file)), stack[-1])


class Recorder:
    """Collects the events of one trace. Methods may be called from any thread."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.events: dict[Hashable, Event] = {}
        self.regions: dict[str, Region] = {}
        self.compilations: list[Compilation] = []
        self.traced_lines: defaultdict[str, set[int]] = defaultdict(set)
        self._wrapped: list[tuple[dict[str, Any], str, Any, Any]] = []
        self._lock = threading.RLock()

    def add(self, event: Event, *identity: Hashable, at: float, took: float | None = None) -> Event:
        """Count an event. Events with the same kind, stack and identity are one."""
        key = (event.kind, event.place, event.stack, *identity)
        with self._lock:
            found = self.events.setdefault(key, event)
            found.happened(at - self.began, took)
            found.compile_ids += [c for c in event.compile_ids if c not in found.compile_ids]
        return found

    def again(self, event: Event, *, at: float, took: float | None = None) -> None:
        """Count an event that `add` has returned."""
        with self._lock:
            event.happened(at - self.began, took)

    def traced(self, file: str, line: int) -> None:
        """Dynamo has traced a line."""
        self.traced_lines[file].add(line)

    def cudagraph_skipped(self, reason: str, compiling: Frame | None) -> None:
        """Inductor gave up a CUDA graph, maybe while it compiled a frame."""
        places = _GUARD_STACK.findall(reason)
        stack = tuple(Frame(file, int(line), name) for file, line, name in places)
        frame = _frame(compiling) if compiling is not None else None
        stack = stack or ((frame,) if frame is not None else (Frame("<unknown>", 0, ""),))
        why = reason.split("Found from", 1)[0].strip(" \n:")
        event = Event("graph_refused", INDUCTOR, users_place(stack), stack, why, frame=frame)
        event.details["source"] = "inductor"
        self.add(event, why, at=time.perf_counter())

    def graph(self, graph: Any, compiling: Compile) -> None:
        """Note the host tensors of a graph that meet the device."""
        for met in meetings(graph):
            stack = tuple(map(_frame, met.stack)) or (_frame(compiling.frame),)
            event = _event(compiling, "host_tensor", stack, met.reason, detector=GRAPHS)
            event.details["operation"] = met.operation
            self.add(event, met.reason, at=time.perf_counter())

    def keep(self, event: Event) -> None:
        """Add an event that has been counted already."""
        with self._lock:
            self.events[("counted", len(self.events))] = event

    def abandon(self) -> None:
        """Nothing is recorded any more; a lock that another thread held is gone after a fork."""
        self._lock = threading.RLock()

    def compiled(self, done: Compile) -> None:
        """A frame was compiled, skipped, or failed."""
        if done.compile_id:
            around = _frame(done.called_by) if done.called_by else None
            self.compilations.append(Compilation(done.compile_id, _frame(done.frame), around))
        # A frame is traced again after each break: the same break may be seen in several attempts.
        for found in {(b.stack, b.gb_type): b for b in done.breaks}.values():
            self._add_break(done, found)
        if done.limit:
            self._add_simple(done, "cache_limit", _parts(done.limit)[0], guard=_guard(done))
        elif done.recompile_reasons:
            self._add_simple(done, "recompile", _guard(done), guard=_guard(done))
        if done.skip_reason:
            reason, details = _parts(done.skip_reason)
            self._add_simple(done, "skipped_frame", reason).details.update(details)
        if done.error:
            self._add_simple(done, "compile_error", done.error)
        skipped = any(found.frame_skipped for found in done.breaks)
        if not (done.skip_reason or done.error or done.limit or skipped):
            self._add_simple(done, "compiled", "")
        for graph in done.graphs:
            self.follow(graph, compile_s=done.ended - done.began)

    def _add_break(self, done: Compile, found: Break) -> None:
        stack = tuple(_frame(place) for place in found.stack)
        reason, details = _parts(found.reason)
        event = _event(done, "graph_break", stack, reason, gb_type=found.gb_type)
        event.frame_skipped, event.raised = found.frame_skipped, found.raised
        event.details = details
        if found.cause:
            kind, more = _parts(found.cause)
            event.details["cause"] = {"gb_type": kind, "gb_id": gb_ids().get(kind), **more}
        self.add(event, found.gb_type, found.frame_skipped, at=done.began)

    def _add_simple(self, done: Compile, kind: str, reason: str, guard: str = "") -> Event:
        stack = tuple(_frame(place) for place in done.error_place) or (_frame(done.frame),)
        gb_type = reason if reason in gb_ids() else ""
        event = _event(done, kind, stack, reason, gb_type=gb_type)
        compiled = kind in ("compiled", "recompile")
        event.guard, event.frame_skipped = guard, None if compiled else True
        event.raised = done.raised and not compiled
        took = done.ended - done.began if compiled else None
        found = self.add(event, _NUMBER.sub("N", guard or reason), at=done.began, took=took)
        if guard:
            _note_guard(found, done, guard)
        return found

    def follow(self, graph: Graph, compile_s: float | None) -> None:
        """Count and time the calls of a compiled callable, through the global it is called by."""
        original = graph.scope[graph.name]
        region = Region(
            f"r{len(self.regions) + 1}",
            graph.name,
            _frame(graph.frame),
            graph.compile_id,
            before_trace=compile_s is None,
            compile_s=compile_s,
        )
        timed = _timed(original, region)
        with self._lock:
            self.regions[region.key] = region
            self._wrapped.append((graph.scope, graph.name, original, timed))
            graph.scope[graph.name] = timed

    def release(self) -> None:
        """Let compiled code call its callables directly again."""
        with self._lock:
            for scope, name, original, timed in self._wrapped:
                if scope.get(name) is timed:
                    scope[name] = original
            self._wrapped.clear()


def _event(
    done: Compile,
    kind: str,
    stack: tuple[Frame, ...],
    reason: str,
    gb_type: str = "",
    detector: str = DYNAMO,
) -> Event:
    """What happened while a frame was compiled."""
    event = Event(kind, detector, users_place(stack), stack, reason, gb_type)
    event.gb_id, event.frame = gb_ids().get(gb_type, ""), _frame(done.frame)
    event.compile_ids = [done.compile_id] if done.compile_id else []
    return event


def _timed(original: Callable[..., Any], region: Region) -> Callable[..., Any]:
    clock, device = time.perf_counter, DeviceTime()
    region.device_s = device.seconds

    def call(*args: Any) -> Any:
        queued, began = device.begin(), clock()
        try:
            results = original(*args)
        finally:
            region.host_s += clock() - began
            region.calls += 1
        device.end(queued)
        return results

    keep_out(call)
    return call


def _reason(done: Compile) -> str:
    return done.recompile_reasons[0] if done.recompile_reasons else ""


def _guard(done: Compile) -> str:
    """The check that failed, without the compilation it belongs to and its place."""
    first = _COMPILE_ID_IN_REASON.sub("", _reason(done)).split("\n", 1)[0]
    return _COMMENT.sub("", first).strip()


def _note_guard(event: Event, done: Compile, guard: str) -> None:
    """Keep the first guards that failed, and the user's line that made the guard."""
    guards = event.details.setdefault("guards", [])
    if guard not in guards and len(guards) < KEPT_GUARDS:
        guards.append(guard)
    places = _GUARD_STACK.findall(_reason(done).partition("\nUser stack trace:")[2])
    if places and "guard_place" not in event.details:
        file, line, function = places[-1]
        event.details["guard_place"] = Frame(file, int(line), function)._asdict()


def _parts(text: str) -> tuple[str, dict[str, Any]]:
    """Torch's message on a break: its first paragraph; explanation, hints and context by name."""
    message = text.split("\n\n For more details", 1)[0]
    first, *others = _PARTS.split(message)
    named: dict[str, Any] = {}
    for name, value in zip(others[::2], others[1::2], strict=True):
        said = " ".join(value.split())
        if name == "Hint":
            named.setdefault("hints", []).append(said)
        else:
            named["explanation" if name == "Explanation" else "context"] = said
    return " ".join(first.split()), named
