"""Selection around real partitions, on a GPU of CPU memory, with results checked on every call."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select.groups import CompiledGraph, Selector
from pygraph_rt.select.remembered import Decisions
from pygraph_rt.select.trial import Instruments
from tests.runtime.test_partition import Machine


class Now:
    """A stamp of a GPU that has no queue."""

    def __init__(self) -> None:
        self._at = time.perf_counter_ns()

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Now) -> float:
        return (end._at - self._at) / 1e6


def selected(machine: Machine, folder: Path | None = None) -> CompiledGraph:
    selector = Selector(Instruments(time.perf_counter_ns, lambda device: Now(), lambda: False))
    entry = CompiledGraph(selector, Decisions(folder))
    machine.partition.key = "a-key"
    entry.add(machine.partition)
    return entry


def slow_down(machine: Machine, patch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    original = getattr(machine.gpu, name)

    def slow(*arguments: Any) -> Any:
        if machine.gpu.recording is None:
            time.sleep(seconds)
        return original(*arguments)

    patch.setattr(machine.gpu, name, slow)
    machine.partition._function.__globals__["launch"] = machine.gpu.launch_kernel


def run(machine: Machine, calls: int) -> None:
    for _ in range(calls):
        machine.call()
        if machine.region.choice:
            break


def test_a_graph_that_is_faster_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch)
    slow_down(machine, monkeypatch, "launch_kernel", 1e-3)
    entry = selected(machine, tmp_path)
    run(machine, 400)
    assert (machine.region.choice, machine.region.state) == (GRAPH, "serving")
    served = machine.partition.replay
    assert entry.group is not None
    for _ in range(20):
        machine.call()
    assert machine.partition.replay is not None
    assert served is None or machine.partition.replay is served
    remembered = Decisions(tmp_path).load("a-key")
    assert remembered is not None
    assert remembered.choice == GRAPH
    assert remembered.period_ms < 3


def test_a_graph_that_is_slower_is_freed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine(monkeypatch)
    slow_down(machine, monkeypatch, "launch", 2e-3)
    kept = selected(machine)
    with caplog.at_level("INFO", logger="pygraph_rt"):
        run(machine, 600)
    assert kept.members()
    region = machine.region
    assert (region.choice, region.state) == (NO_GRAPH, "no graph")
    assert "ms with no graph" in region.reason
    machine.environment.disposal.drain()
    assert machine.gpu.executables == {}
    before = region.unserved
    machine.call()
    assert region.unserved == before + 1
    decided = [r for r in caplog.records if r.getMessage().startswith(region.name)]
    assert any("no graph, because" in r.getMessage() for r in decided)


def test_a_graph_that_is_wanted_again_is_not_said_to_be_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    machine.partition.leave("it is slower")
    assert "it is slower" in machine.region.reason
    machine.partition.use(True)
    for _ in range(4):
        machine.call()
    machine.partition.refresh()
    assert (machine.region.state, machine.region.reason) == ("serving", "")


def test_what_cannot_be_captured_is_left_with_its_own_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    machine.gpu.stray_pointer = torch.zeros(4)
    kept = selected(machine)
    run(machine, 200)
    assert kept.members()
    assert machine.region.choice == ""
    assert "device memory" in machine.region.reason


def test_threads_that_call_while_it_is_decided_get_right_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch)
    slow_down(machine, monkeypatch, "launch", 1e-3)
    kept = selected(machine)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            state = machine.aligned()
            for _ in range(150):
                a = machine.aligned()
                total = a + state
                want = total * 0.5
                result, _ = machine.partition([a, state])
                assert torch.equal(result, total + want)
                assert torch.equal(state, want)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    run(machine, 600)
    for thread in threads:
        thread.join()
    assert failures == []
    assert kept.members()
    assert machine.region.choice == NO_GRAPH, machine.region


def test_a_choice_during_another_threads_call_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One thread is in the middle of a call whose code calls another compiled graph; another one
    acts on a choice, under the selector's lock.
    """
    machine = Machine(monkeypatch)
    kept = selected(machine)
    selector, other = kept._selector, CompiledGraph(kept._selector, Decisions(None))
    inside, deciding = threading.Event(), threading.Event()

    def decide() -> None:
        inside.wait(10)
        with selector._lock:
            deciding.set()
            machine.partition.leave("it says so")

    def nested(args: Any) -> None:
        machine.before = lambda args: None
        inside.set()
        deciding.wait(10)
        selector.called(other)

    machine.call()
    machine.partition.use(True)
    machine.before = nested
    threads = [threading.Thread(target=decide), threading.Thread(target=machine.call)]
    for thread in threads:
        thread.daemon = True
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
        assert not thread.is_alive(), "each waits for the other"
