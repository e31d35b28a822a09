"""An exception in a call at which a group's trial begins or ends leaves no half of it behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pygraph_rt.cuda.native import memory
from pygraph_rt.cuda.native.memory import ENOUGH, Helper
from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select import groups
from pygraph_rt.select.groups import CompiledGraph, Phase, Selector
from pygraph_rt.select.remembered import Decisions
from tests.runtime.interrupts import at_every_opcode, is_free
from tests.runtime.simulated_loop import Machine, Part, entry, selector
from tests.runtime.test_selection_live import HOST_BOUND, SLOWER, run

Pair = tuple[Part, CompiledGraph]


def after(calls: int, shape: dict[str, Any]) -> Pair:
    """A loop of one region, and its watcher, after so many calls."""
    machine = Machine()
    part = Part(machine, **shape)
    watcher = entry(selector(machine), part)
    run(part, calls)
    return part, watcher


def calls_before(phase: Phase, shape: dict[str, Any]) -> int:
    """How many calls there are before the one at which a group comes into a phase."""
    part, watcher = after(0, shape)
    calls = 0
    while watcher.group is None or watcher.group.phase is not phase:
        part([])
        calls += 1
    return calls - 1


@pytest.mark.parametrize(
    ("phase", "shape", "choice"),
    [
        (Phase.CAPTURING, HOST_BOUND, GRAPH),
        (Phase.COMPARING, HOST_BOUND, GRAPH),
        (Phase.DECIDED, HOST_BOUND, GRAPH),
        (Phase.DECIDED, SLOWER, NO_GRAPH),
    ],
)
def test_a_group_is_decided_all_the_same(phase: Phase, shape: dict[str, Any], choice: str) -> None:
    calls = calls_before(phase, shape)
    state = [after(calls, shape)]
    for at in at_every_opcode(lambda: state[0][0]([]), "select/groups.py", step=7):
        part, watcher = state[0]
        run(part, 2400)
        assert watcher.group is not None
        found = (watcher.group.phase, part.choice, part.watcher, part.graphs)
        assert found == (Phase.DECIDED, choice, None, choice == GRAPH), f"opcode {at}"
        state[0] = after(calls, shape)


def test_a_trial_that_was_not_made_keeps_no_other_from_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    chosen = selector(machine)
    parts = [Part(machine, name=name, **HOST_BOUND) for name in "ab"]
    kept = [entry(chosen, part) for part in parts]
    made = groups.Trial

    def interrupted(*args: Any) -> Any:
        monkeypatch.setattr(groups, "Trial", made)
        raise KeyboardInterrupt

    monkeypatch.setattr(groups, "Trial", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(parts[0], 640)
    for _ in range(30):
        for part in parts:
            run(part, 100)
    assert [part.choice for part in parts] == [GRAPH, GRAPH]
    assert kept


def test_what_was_measured_while_a_helper_arrived_is_not_remembered(tmp_path: Path) -> None:
    kept, machine, building = Decisions(tmp_path), Machine(), [True]
    chosen = Selector(machine.instruments(), will_be_quicker=lambda: building[0])
    part = Part(machine, **HOST_BOUND)
    part.key = "k"
    watcher = entry(chosen, part, decisions=kept)
    for _ in range(640):
        part([])
        if watcher.group is not None and watcher.group.phase is Phase.COMPARING:
            building[0] = False
    assert part.choice == GRAPH
    assert kept.load("k") is None


def test_the_helper_is_asked_for_without_leaving_a_lock(tmp_path: Path) -> None:
    helpers = [Helper(tmp_path / "m")]
    for at in at_every_opcode(lambda: helpers[0].ask(), "cuda/native/memory.py"):
        assert is_free(helpers[0]._lock), f"opcode {at}"
        helpers[0] = Helper(tmp_path / "m")


def test_nothing_is_being_built_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "cxx", list)
    helper = Helper(tmp_path / "m")
    assert helper.ask(ENOUGH) is None
    assert not helper.building
    assert helper._process is None


def test_a_helper_that_is_there_is_not_being_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = Helper(tmp_path / "m")
    monkeypatch.setattr(Helper, "_start", lambda self: None)
    helper.ask(ENOUGH)
    assert helper.building
    helper._file.touch()
    monkeypatch.setattr(memory, "load_file", lambda file: "the module")
    assert not helper.building, "nobody else has looked"


def test_what_another_process_builds_is_taken_without_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "cxx", list)
    helper = Helper(tmp_path / "m")
    with memory.alone(helper.folder):
        helper.ask(ENOUGH)
        assert helper.building
    helper._file.touch()
    monkeypatch.setattr(memory, "load_file", lambda file: "the module")
    assert helper.ask() == "the module"
