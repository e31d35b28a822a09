"""Which lines ran: by `sys.monitoring` on Python 3.12 and later, else by `sys.settrace`.

The module needs no torch, so that it is tested on versions of Python that torch is not there for.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any

import pytest


def loaded() -> Any:
    """The module by its file: importing the package needs torch."""
    file = Path(__file__).parents[2] / "pygraph_rt" / "trace" / "lines.py"
    spec = importlib.util.spec_from_file_location("lines_alone", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lines = loaded()
MonitoredLines, TracedLines = lines.MonitoredLines, lines.TracedLines
SOURCE = """\
def chosen(x):
    if x > 0:
        return "positive"
    return "negative"

def repeated():
    total = 0
    for number in range(3):
        total += number
    return total

def raising():
    try:
        raise ValueError
    except ValueError:
        handled = True
    return handled
"""
FILE = "/project/program.py"
MONITORED = pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="Python 3.11 or earlier")


@pytest.fixture(params=[pytest.param(MonitoredLines, marks=MONITORED), TracedLines])
def detector(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param is TracedLines and sys.gettrace() is not None:
        pytest.skip("another tool traces")
    yield request.param(lambda file: file == FILE)
    assert sys.gettrace() is None


def program() -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(compile(SOURCE, FILE, "exec"), scope)
    return scope


def test_lines_that_ran_and_no_others(detector: Any) -> None:
    scope = program()
    assert detector.start()
    scope["chosen"](1)
    scope["repeated"]()
    scope["raising"]()
    detector.stop()
    scope["chosen"](-1)  # after the end
    assert dict(detector.lines) == {FILE: {2, 3, 7, 8, 9, 10, 13, 14, 15, 16, 17}}


def test_other_files_are_not_kept(detector: Any) -> None:
    scope: dict[str, Any] = {}
    exec(compile(SOURCE, "/elsewhere/program.py", "exec"), scope)
    assert detector.start()
    scope["chosen"](1)
    detector.stop()
    assert not detector.lines


def test_lines_of_other_threads(detector: Any) -> None:
    scope = program()
    assert detector.start()
    thread = threading.Thread(target=scope["chosen"], args=(-1,))
    thread.start()
    thread.join()
    detector.stop()
    assert detector.lines[FILE] == {2, 4}


@MONITORED
def test_a_second_time_sees_the_same_lines() -> None:
    """Python does not call back for a line that was switched off, until it is told to."""
    scope = program()
    for _ in range(2):
        found = MonitoredLines(lambda file: file == FILE)
        assert found.start()
        scope["chosen"](1)
        found.stop()
        assert found.lines[FILE] == {2, 3}


@MONITORED
def test_a_taken_tool_is_left_alone() -> None:
    monitoring: Any = vars(sys)["monitoring"]
    monitoring.use_tool_id(lines._TOOL, "another")
    try:
        found = lines.executed_lines(lambda file: True, coverage=False)
        assert found is None
        assert monitoring.get_tool(lines._TOOL) == "another"
    finally:
        monitoring.free_tool_id(lines._TOOL)


@MONITORED
def test_lines_next_to_another_tool() -> None:
    """A coverage tool that runs at the same time sees what it would see without a trace."""
    monitoring: Any = vars(sys)["monitoring"]
    seen: list[int] = []
    scope = program()

    def on_line(code: CodeType, line: int) -> None:
        if code.co_filename == FILE:
            seen.append(line)

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "coverage")
    monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, on_line)
    monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
    found = MonitoredLines(lambda file: file == FILE)
    try:
        assert found.start()
        scope["chosen"](1)
        scope["chosen"](1)
        found.stop()
        scope["chosen"](-1)
    finally:
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)
    assert seen == [2, 3, 2, 3, 2, 4]
    assert found.lines[FILE] == {2, 3}


SLEEPS = """\
def slow(report):
    before = 1
    time.sleep(0.02); report()

def twice(report):
    time.sleep(0.02); report(); time.sleep(0.01); report()

def looped(report):
    for number in range(3):
        time.sleep(0.01 * number)
        report()
    return number

def inner():
    time.sleep(0.02)
    return 1

def calls(report):
    report(inner())

def known(report):
    time.sleep(0.05); ended(); time.sleep(0.01); report()
"""


class Clock:
    """A clock that stands still but for `sleep`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now = [100.0]
        monkeypatch.setattr(
            lines, "time", SimpleNamespace(perf_counter=partial(self._now.__getitem__, 0))
        )

    def sleep(self, seconds: float) -> None:
        self._now[0] += seconds


def reported(clock: Clock, text: str, function: str, times: int) -> list[float | None]:
    """What a detector says when a function reports from a line of it."""
    found = MonitoredLines(lambda file: file == FILE)
    said: list[float | None] = []

    def report(*args: Any) -> None:
        said.append(found.since(sys._getframe(1)))

    scope: dict[str, Any] = {"time": clock, "ended": found.ended}
    exec(compile(text, FILE, "exec"), scope)
    assert found.start()
    for _ in range(times):
        scope[function](report)
    found.stop()
    return said


@MONITORED
@pytest.mark.parametrize(
    ("function", "times", "expected"),
    [
        ("slow", 3, [0.02, 0.02, 0.02]),
        ("twice", 2, [0.02, 0.01, 0.02, 0.01]),
        ("looped", 1, [0.0, 0.0, 0.0]),  # the report has a line of its own
        ("calls", 2, [0.02, 0.02]),  # with what the line calls
        ("known", 2, [0.01, 0.01]),
    ],
)
def test_how_long_a_line_has_run(
    function: str, times: int, expected: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert reported(Clock(monkeypatch), SLEEPS, function, times) == pytest.approx(expected)
