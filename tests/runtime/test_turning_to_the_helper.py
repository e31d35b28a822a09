"""Graphs turn to the compiled helper when it is there: memory and inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pygraph_rt.replay import replay
from tests.runtime.test_replay import Rig


class Coming:
    """A helper that is there from the third look on."""

    def __init__(self, module: Any, at: int = 3) -> None:
        self.module, self.at, self.looks, self.open = module, at, 0, True
        self.work: list[int] = []

    def ask(self, work: int = 0) -> Any:
        self.looks += 1
        self.work.append(work)
        if self.looks < self.at:
            return None
        self.open = False
        return self.module


def serve(rig: Rig, calls: int) -> list[str]:
    """Calls, each checked; how each took memory."""
    ways = []
    for _ in range(calls):
        args = rig.args()
        kept = list(args)
        results = rig.replay(args)
        assert results is not None
        out, pool = rig.held[-2:]
        assert results[0] is out
        assert rig.driver.launches[-1][2] == rig.expected(kept, pool.data_ptr(), out.data_ptr())
        ways.append(type(rig.replay._launcher.sub_graphs[0].memory).__name__)
    return ways


@pytest.fixture
def coming(memory_module: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[Coming], Rig]:
    def make(helper: Any) -> Rig:
        monkeypatch.setattr("tests.runtime.software_gpu.MEMORY_HELPER", helper)
        monkeypatch.setattr(replay, "_LOOK_EVERY", 4)
        return Rig()

    return make


def test_a_graph_turns_to_the_helper_when_it_is_there(memory_module: Any, coming: Any) -> None:
    helper = Coming(memory_module)
    ways = serve(coming(helper), 20)
    assert ways == ["PythonAllocator"] * 5 + ["NativeAllocator"] * 15
    assert helper.looks == 3
    assert helper.work == [3 + 4 * 2, 0, 0]  # inputs, and pieces of memory


def test_a_helper_that_will_not_come_is_not_asked_for_again(coming: Any) -> None:
    helper = Coming(None)
    assert set(serve(coming(helper), 20)) == {"PythonAllocator"}
    assert helper.looks == 3
