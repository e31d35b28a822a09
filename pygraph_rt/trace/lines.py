"""Which lines of the user's files Python executed."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

_TOOL = 4  # sys.monitoring has 6 tools; 0 to 2 and 5 are given to debuggers, coverage, profilers


class MonitoredLines:
    """Lines by `sys.monitoring`: each line reports once, then costs nothing."""

    how = "sys.monitoring"

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        self.lines: defaultdict[str, set[int]] = defaultdict(set)
        self._wanted = wanted
        self._monitoring: Any = getattr(sys, "monitoring", None)

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

    def _on_line(self, code: CodeType, line: int) -> Any:
        if self._wanted(code.co_filename):
            self.lines[code.co_filename].add(line)
        return self._monitoring.DISABLE


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
