"""Ctrl-C at any moment of a served call: the next call is right, and nothing is held."""

from __future__ import annotations

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.cuda import native
from pygraph_rt.rng.generator import Draw
from tests.runtime import software_gpu
from tests.runtime.interrupts import at_every_opcode, is_free
from tests.runtime.test_replay import SECOND, WEIGHT, Rig
from tests.runtime.test_slabs import Step
from tests.runtime.test_staging import Machine as SubGraphs
from tests.runtime.test_training_random import Machine as Random

pytestmark = pytest.mark.usefixtures("way_of_taking")
FOLDERS = ("replay", "memory", "rng", "interrupts")


@pytest.fixture(autouse=True, params=["ctypes", "compiled"])
def way_of_launching(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if request.param == "compiled":
        helper = native.load(tmp_path_factory.getbasetemp())
        if helper is None:
            pytest.skip("no C compiler")
        monkeypatch.setattr(Rig, "native", staticmethod(helper))
        monkeypatch.setattr(software_gpu, "LAUNCH_HELPER", helper)


@pytest.mark.parametrize("again", ["the same addresses", "others", "those of before"])
def test_the_next_call_has_no_stale_address(again: str) -> None:
    """Memory stays where it is, so that a node is patched for its inputs alone."""
    rig = Rig(stays=(WEIGHT, SECOND))
    pool, out = torch.empty(4096, dtype=torch.uint8), torch.empty(4, 4)
    rig.replay._launcher.allocate = lambda size, stride, dtype: (
        pool if dtype is torch.uint8 else out
    )
    places = [rig.aligned() for _ in range(3)]
    now = before = (places[0], places[1])

    def call() -> None:
        assert rig.replay(rig.args(*now)) is not None

    for _ in range(4):
        call()
        now = (now[1], now[0])
    for at in at_every_opcode(call, *FOLDERS):
        assert is_free(rig.replay._lock), at
        if again == "others":
            now = (places[2], places[0])
        elif again == "those of before":
            now = before
        kept = rig.args(*now)
        call()
        expected = rig.expected(kept, pool.data_ptr(), out.data_ptr())
        assert rig.driver.launches[-1][2] == expected, at
        before, now = now, (places[at % 3], places[at // 3 % 3])
        rig.driver.launches.clear()
        rig.driver.submitted.clear()


def test_nothing_is_held() -> None:
    rig = Rig()

    def call() -> None:
        assert rig.replay(rig.args()) is not None

    for _ in range(4):
        call()
        rig.held.clear()
    for at in at_every_opcode(call, *FOLDERS):
        made = [StorageWeakRef(t.untyped_storage()) for t in rig.held]
        rig.held.clear()
        assert all(weak.expired() for weak in made), at
        rig.driver.launches.clear()


def test_inputs_that_move_for_the_first_time_are_followed() -> None:
    """Each is followed one by one from then on."""
    rig = Rig(stays=(WEIGHT, SECOND))
    calls = 0

    def call() -> None:
        nonlocal rig, calls
        calls += 1
        rig = Rig(stays=(WEIGHT, SECOND))
        second = rig.aligned()
        for _ in range(2):
            assert rig.replay(rig.args(None, second)) is not None
        assert rig.replay(rig.args()) is not None

    for at in at_every_opcode(call, "replay/inputs.py"):
        for _ in range(3):
            args = rig.args()
            kept = list(args)
            assert rig.replay(args) is not None
            out, pool = rig.held[-2:]
            expected = rig.expected(kept, pool.data_ptr(), out.data_ptr())
            assert rig.driver.launches[-1][2] == expected, at
    assert calls > 100


def test_an_executable_that_is_made_anew_is_never_freed_twice_or_used_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pygraph_rt.replay.executable._WORTH_IT", 1)
    rig = Rig()

    def call() -> None:
        nonlocal rig
        rig = Rig()
        for _ in range(2):
            assert rig.replay(rig.args()) is not None

    for at in at_every_opcode(call, "replay/executable.py"):
        if rig.replay.closed:  # the next one was not made
            continue
        for _ in range(2):
            args = rig.args()
            kept = list(args)
            gone = [e[1] for e in rig.driver.log if e[0] == "destroy_exec"]
            assert rig.replay(args) is not None
            out, pool = rig.held[-2:]
            executable, _, state = rig.driver.launches[-1]
            assert state == rig.expected(kept, pool.data_ptr(), out.data_ptr()), at
            assert executable not in gone, at
        made = {1000, *(e[1] for e in rig.driver.log if e[0] == "instantiate")}
        gone = [e[1] for e in rig.driver.log if e[0] == "destroy_exec"]
        for handles in rig.replay.detach():
            gone += handles.executables
        assert len(gone) == len(set(gone)), at
        assert len(made - set(gone)) <= 1, at  # between two opcodes nobody has it


def test_slabs_are_never_handed_out_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Step(monkeypatch, {1, 2, 3})
    for _ in range(4):
        step.call()
    kept: list[tuple[list[torch.Tensor], list[torch.Tensor]]] = []
    replay = step.forward.replay
    assert replay is not None
    for at in at_every_opcode(step.call, *FOLDERS, step=3):
        assert is_free(replay._lock), at
        results = step.call()
        if at % 5 == 0:
            kept.append((list(results), [t.clone() for t in results]))
    assert step.forward.replay is replay
    for results, copies in kept:
        assert all(map(torch.equal, results, copies))


def test_random_numbers_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Random(monkeypatch, True)
    for _ in range(4):
        machine.call()
    for at in at_every_opcode(machine.call, *FOLDERS, step=3):
        assert is_free(Draw._lock), at
        machine.call()


def test_a_call_of_several_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = SubGraphs(monkeypatch)
    for _ in range(4):
        machine.call()
    for _ in at_every_opcode(machine.call, *FOLDERS, step=7):
        machine.call()


def test_a_call_in_the_middle_of_a_call_is_not_served() -> None:
    """As one that a signal handler makes."""
    rig = Rig()
    rig.replay(rig.args())
    with rig.replay._lock:
        assert rig.replay(rig.args()) is None
    assert rig.replay(rig.args()) is not None
