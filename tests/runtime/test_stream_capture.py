"""What a capture clears, and what it leaves alone."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pygraph_rt.capture import stream_capture

STREAM = 0x5EED


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    def __init__(self, keep_graph: bool = False) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda **_: self.calls.append(name)


@pytest.fixture
def cleared(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Streams whose workspaces were cleared, or "all"."""
    found: list[Any] = []
    for name in ("device", "stream"):
        monkeypatch.setattr(torch.cuda, name, lambda _: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(
        torch._C, "_cuda_clearCublasWorkspaces", lambda: found.append("all"), raising=False
    )
    states = iter(range(9))
    generator = SimpleNamespace(
        graphsafe_get_state=lambda: next(states), graphsafe_set_state=lambda state: None
    )
    monkeypatch.setattr(torch.cuda, "default_generators", [generator])
    monkeypatch.setattr(stream_capture, "_restore_generator", lambda device: None)
    stream_capture._clear_for_stream.cache_clear()
    yield found
    stream_capture._clear_for_stream.cache_clear()


def capture(run: Callable[[], None] = lambda: None) -> None:
    stream: Any = SimpleNamespace(cuda_stream=STREAM)
    stream_capture.capture_graph(run, stream, SimpleNamespace(id=(0, 1)), 0)


def fail() -> None:
    raise RuntimeError("under capture")


def test_only_the_captures_own_cublas_workspaces_are_cleared(
    cleared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that the program captured before may use those of other streams."""

    class Function:
        def __call__(self, stream: int) -> None:
            cleared.append(stream)

    library = {"_ZN2at4cuda30clearCublasWorkspacesForStreamEP11CUstream_st": Function()}
    monkeypatch.setattr(ctypes, "CDLL", lambda path: library)
    capture()
    assert cleared == [STREAM]
    with pytest.raises(RuntimeError, match="under capture"):
        capture(fail)
    assert cleared == [STREAM, STREAM]


def test_torch_2_11_can_only_clear_all(cleared: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: str) -> Any:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    capture()
    assert cleared == ["all"]


class Interrupt(BaseException):
    """What another thread throws."""


def test_exceptions_while_a_capture_is_ended_do_not_leave_it_open(
    cleared: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step of the end is interrupted once, before it or after it."""
    state = {"capturing": False, "ended": 0}
    left = [Interrupt] * 6

    def begin(graph: Any, **_: Any) -> None:
        state["capturing"] = True

    def end(graph: Any) -> None:
        state["capturing"] = False
        state["ended"] += 1
        disturb()

    def disturb() -> None:
        if left:
            raise left.pop()

    def capturing() -> bool:
        disturb()
        return state["capturing"]

    monkeypatch.setattr(Graph, "capture_begin", begin, raising=False)
    native = SimpleNamespace(capture_end=end)
    monkeypatch.setattr(torch._C, "_CUDAGraph", native, raising=False)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", capturing)
    with pytest.raises(RuntimeError, match="under capture"):
        capture(fail)
    assert not state["capturing"]
    assert state["ended"] == 1
    assert not left
