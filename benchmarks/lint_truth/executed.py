"""Which source lines of the measured packages run during one eager call."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from types import FrameType
from typing import Any

from benchmarks.lint_truth.packages import relative_name

Lines = dict[str, set[int]]


def executed_lines(call: Callable[[], Any]) -> Lines:
    """Run `call` and return package file ("package/path.py") -> the line numbers that ran.

    Uses `sys.settrace` (Python 3.11 has no `sys.monitoring`), with line events only in frames
    of the measured packages.
    """
    lines: Lines = defaultdict(set)

    def enter(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        name = relative_name(frame.f_code.co_filename)
        if name is None:
            return None
        seen = lines[name]
        seen.add(frame.f_lineno)

        def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            if event == "line":
                seen.add(frame.f_lineno)
            return line

        return line

    previous = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(previous)
    return dict(lines)
