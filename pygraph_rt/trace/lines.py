"""Which lines of the user's files Python executed, and since when a line runs."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_TOOL = 4  # sys.monitoring has 6 tools; 0 to 2 and 5 are given to debuggers, coverage, profilers


class _Local(threading.local):
    """Of a thread: the last line of each code and when it began; when a part of a line ended."""

    def __init__(self) -> None:
        self.began: dict[int, tuple[int, float]] = {}
        self.ended = 0.0


class MonitoredLines:
    """Lines by `sys.monitoring`: each line reports once, then costs nothing.

    A line that `since` was asked for reports each time. Lines of other files do so, too.
    """

    how = "sys.monitoring"

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.lines: defaultdict[str, set[int]] = defaultdict(set)
        self._wanted = wanted
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._local = _Local()
        self._timed: dict[tuple[int, int], CodeType] = {}  # which keeps the code's id its own

    def start(self) -> bool:
        """Begin; False where Python has no monitoring, or all its tools are taken."""
        found = self._monitoring
        if found is None or found.get_tool(_TOOL) is not None:
            return False
        found.use_tool_id(_TOOL, "pygraph trace")
        found.register_callback(_TOOL, found.events.LINE, self._on_line)
        found.set_events(_TOOL, found.events.LINE)
        return True

    def stop(self) -> None:
        """End, and give the tool back."""
        found = self._monitoring
        found.set_events(_TOOL, 0)
        found.register_callback(_TOOL, found.events.LINE, None)
        found.free_tool_id(_TOOL)
        found.restart_events()

    def since(self, frame: FrameType) -> float | None:
        """Seconds since the frame's line began, or since the last call of `ended` or this.

        None where that is not known: the line ran before, and nobody asked for it.
        """
        code, line, now = id(frame.f_code), frame.f_lineno, time.perf_counter()
        last, began = self._local.began.get(code, (0, 0.0))
        found = now - max(began, self._local.ended) if last == line else None
        if (code, line) not in self._timed:
            self._timed[code, line] = frame.f_code
            self._local.began[code] = (line, now)
            self._monitoring.restart_events()
        self._local.ended = now
        return found

    def ended(self, now: float | None = None) -> None:
        """Do not count what has happened in the lines that run now until now."""
        self._local.ended = time.perf_counter() if now is None else now

    def _on_line(self, code: CodeType, line: int) -> Any:
        self._local.began[id(code)] = (line, time.perf_counter())
        if self._wanted(code.co_filename):
            self.lines[code.co_filename].add(line)
        return None if (id(code), line) in self._timed else self._monitoring.DISABLE


class TracedLines:
    """Lines by `sys.settrace`, which slows every call down; for Python 3.11 and earlier."""

    how = "settrace"

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.lines: defaultdict[str, set[int]] = defaultdict(set)
        self._wanted = wanted

    def start(self) -> bool:
        """Begin; False when a debugger or another coverage tool is already there."""
        if sys.gettrace() is not None:
            return False
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)
        return True

    def stop(self) -> None:
        """End."""
        sys.settrace(None)
        threading.settrace(None)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self._wanted(frame.f_code.co_filename):
            return None
        lines = self.lines[frame.f_code.co_filename]

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "line":
                lines.add(frame.f_lineno)
            return on_line

        return on_line


def executed_lines(
    wanted: Callable[[str], bool], coverage: bool
) -> MonitoredLines | TracedLines | None:
    """A started detector of executed lines; None where it is not known which lines run."""
    monitored = MonitoredLines(wanted)
    if monitored.start():
        return monitored
    if coverage:
        traced = TracedLines(wanted)
        if traced.start():
            return traced
    return None
