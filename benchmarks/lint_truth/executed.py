"""Which source lines of the measured packages run during one eager call."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch.nn import Module

from benchmarks.lint_truth.packages import relative_name

Lines = dict[str, set[int]]


@dataclass
class Executed:
    """Lines that ran, by package file ("package/path.py").

    `in_modules` are those that ran while a method of one of the measured packages' own modules
    was on the call stack.
    """

    lines: Lines = field(default_factory=lambda: defaultdict(set))
    in_modules: Lines = field(default_factory=lambda: defaultdict(set))


def _is_module_method(frame: FrameType) -> bool:
    names = frame.f_code.co_varnames
    return bool(names) and isinstance(frame.f_locals.get(names[0]), Module)


def executed(call: Callable[[], Any]) -> Executed:
    """Run `call` and return the lines that ran.

    Uses `sys.settrace` (Python 3.11 has no `sys.monitoring`), with line events only in frames
    of the measured packages.
    """
    seen = Executed()
    methods = 0  # frames of module methods on the stack

    def enter(frame: FrameType, event: str, argument: Any) -> Callable[..., Any] | None:
        nonlocal methods
        name = relative_name(frame.f_code.co_filename)
        if name is None:
            return None
        method = _is_module_method(frame)
        methods += method

        def line(frame: FrameType, event: str, argument: Any) -> Callable[..., Any]:
            nonlocal methods
            if event == "line":
                seen.lines[name].add(frame.f_lineno)
                if methods:
                    seen.in_modules[name].add(frame.f_lineno)
            elif event == "return":
                methods -= method
            return line

        line(frame, "line", None)
        return line

    previous = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    finally:
        sys.settrace(previous)
    return seen
