"""`options={"graphs": "require"}`: a call that no graph serves raises, and says why and where."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pygraph_rt
from pygraph_rt.errors import Unprovable
from pygraph_rt.replay import build
from tests.runtime.test_partition import Machine
from tests.runtime.test_states import sized


def test_warm_up_and_served_calls_do_not_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, graphs="require")
    for _ in range(6):
        machine.call()
    machine.partition.refresh()
    assert (machine.region.state, machine.region.served) == ("serving", 4)


def test_a_call_that_is_refused_raises_with_the_reason_and_the_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, graphs="require")
    machine.gpu.stray_pointer = torch.zeros(4)
    machine.call()
    for _ in range(2):  # at the capture, and from then on
        with pytest.raises(pygraph_rt.GraphRequired, match="device memory") as caught:
            machine.call()
        assert "m.py:1" in str(caught.value)
    assert isinstance(caught.value, pygraph_rt.PygraphError)


def test_what_the_ordinary_call_shows_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, graphs="require")
    args = [machine.aligned(), "a text"]
    with pytest.raises(pygraph_rt.GraphRequired, match="str"):
        machine.partition(args)


def test_the_first_call_of_a_wrong_graph_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, graphs="require")
    machine.call()
    monkeypatch.setattr(machine.gpu, "launch", lambda executable, stream: 0)
    with pytest.raises(pygraph_rt.GraphRequired, match="differ"):
        machine.call()


def test_another_kind_of_call_warms_up_and_a_refused_one_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, call = sized(monkeypatch, graphs="require")
    capture = build.capture

    def refusing(*given: Any) -> Any:
        if given[2][0] == 2:
            raise Unprovable("it is the second")
        return capture(*given)

    monkeypatch.setattr(build, "capture", refusing)
    for n in (1, 1, 1, 2, 2, 1):
        call(n)
    for _ in range(2):
        with pytest.raises(pygraph_rt.GraphRequired, match="it is the second"):
            call(2)
    call(1)
    machine.partition.refresh()
    assert machine.region.served == 2


def test_a_launch_that_fails_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, graphs="require")
    for _ in range(4):
        machine.call()
    machine.gpu.fail = lambda call: 700 if call == "set" else 0
    with pytest.raises(pygraph_rt.GraphRequired, match="could not be updated"):
        machine.call()


def test_a_graph_of_the_programs_own_is_no_reason_to_raise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, graphs="require")
    for _ in range(3):
        machine.call()
    object.__setattr__(machine.environment.platform, "capturing", lambda: True)
    machine.call()


def test_after_a_reset_compiled_code_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, graphs="require")
    for _ in range(3):
        machine.call()
    machine.partition.close()
    machine.call()
