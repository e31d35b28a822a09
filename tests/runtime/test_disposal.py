"""Graphs are freed after their last launch, whatever other threads capture meanwhile."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.replay.disposal import Disposal, Handles

RELAXED = 2
CAPTURED, IDLE = 0x111, 0x222


class Function:
    """A function of libcuda's that notes its calls."""

    def __init__(self, library: Library, name: str) -> None:
        self._library, self._name = library, name

    def __call__(self, *arguments: Any) -> int:
        return self._library.called(self._name, arguments)


class Library:
    """A libcuda in which another thread captures, in global mode, on the stream CAPTURED."""

    def __init__(self) -> None:
        self.mode = 0  # of this thread: global
        self.log: list[tuple[Any, ...]] = []
        self.fail = ""
        self.forbidden = 0

    def __getattr__(self, name: str) -> Function:
        if not name.startswith("cu"):
            raise AttributeError(name)
        function = Function(self, name)
        setattr(self, name, function)
        return function

    def called(self, name: str, arguments: tuple[Any, ...]) -> int:
        if name == "cuThreadExchangeStreamCaptureMode":
            cell = ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_int))
            self.mode, cell[0] = cell[0], self.mode
            return 0
        if name == "cuStreamIsCapturing":
            cell = ctypes.cast(arguments[1], ctypes.POINTER(ctypes.c_int))
            cell[0] = int(arguments[0].value == CAPTURED)
            return self.forbidden
        assert name != "cuCtxSynchronize", "it would invalidate the other thread's capture"
        if name == "cuStreamSynchronize":
            assert self.mode == RELAXED
            assert arguments[0].value != CAPTURED
        self.log.append((name, arguments[0].value))
        return 700 if name == self.fail else 0


@pytest.fixture
def library() -> Library:
    return Library()


def waiting(library: Library, *launched_on: set[int]) -> Disposal:
    disposal = Disposal(Driver(library), lambda: False)
    for number, streams in enumerate(launched_on, 1):
        disposal.add(Handles((number, 10 * number), 100 * number, None, frozenset(streams)))
    return disposal


def test_a_stream_that_is_captured_is_left_alone(library: Library) -> None:
    disposal = waiting(library, {CAPTURED}, {IDLE}, set(), {IDLE})
    assert disposal.drain() == 3
    assert library.log == [
        ("cuStreamSynchronize", IDLE),
        *(("cuGraphExecDestroy", 2), ("cuGraphExecDestroy", 20), ("cuGraphDestroy", 200)),
        *(("cuGraphExecDestroy", 3), ("cuGraphExecDestroy", 30), ("cuGraphDestroy", 300)),
        *(("cuGraphExecDestroy", 4), ("cuGraphExecDestroy", 40), ("cuGraphDestroy", 400)),
    ]
    assert library.mode == 0
    assert disposal.drain() == 0  # still captured


def test_all_streams_of_launches_are_waited_for(library: Library) -> None:
    """Executables of one graph do not wait for each other."""
    other = IDLE + 1
    disposal = waiting(library, {IDLE, other}, {IDLE, CAPTURED})
    assert disposal.drain() == 1
    waited = [("cuStreamSynchronize", stream) for stream in (IDLE, other)]
    assert sorted(library.log[:2]) == waited
    assert library.log[2:] == [
        *(("cuGraphExecDestroy", 1), ("cuGraphExecDestroy", 10), ("cuGraphDestroy", 100)),
    ]


def test_an_error_of_earlier_work_leaves_this_threads_mode(library: Library) -> None:
    library.fail = "cuStreamSynchronize"
    assert waiting(library, {IDLE}).drain() == 1
    assert library.mode == 0


def test_while_a_capture_forbids_to_ask_nothing_is_freed(library: Library) -> None:
    """As of the legacy stream, while a blocking stream is captured."""
    library.forbidden = 906
    disposal = waiting(library, {IDLE})
    assert disposal.drain() == 0
    assert library.mode == 0
    assert library.log == []
    library.forbidden = 0
    assert disposal.drain() == 1
