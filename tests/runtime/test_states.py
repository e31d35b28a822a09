"""The life of a region: its table of transitions, and what other threads do to it meanwhile."""

from __future__ import annotations

import gc
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pygraph_rt.capture import address_words
from pygraph_rt.capture.checks import reason_of
from pygraph_rt.errors import Disagreement, Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.region.region import Partition
from pygraph_rt.region.states import CLOSED, TRANSITIONS, Claim, Event, Life, State
from pygraph_rt.replay import build
from tests.runtime.test_partition import Machine
from tests.runtime.test_training_memory import Backward
from tests.runtime.test_variants import SIZED

# Every state, and where each event leads from it; events that are not named are rejected.
ENDS = {Event.DISMISS: "no graph", Event.RETIRE: "refused", Event.RELEASE: "released"}
TABLE: dict[str, dict[Event, str]] = {
    "observing": {Event.BEGIN: "capturing", Event.REOPEN: "observing", **ENDS},
    "capturing": {
        Event.BEGIN: "capturing",
        Event.CAPTURED: "verifying",
        Event.ABANDON: "observing",
        Event.RESUME: "serving",
        Event.FREED: "capturing",
        Event.REOPEN: "capturing",
        **ENDS,
    },
    "verifying": {
        Event.BEGIN: "capturing",
        Event.ACCEPT: "serving",
        Event.ABANDON: "observing",
        Event.RESUME: "serving",
        Event.FREED: "verifying",
        Event.REOPEN: "verifying",
        **ENDS,
    },
    "serving": {
        Event.BEGIN: "capturing",
        Event.FREED: "observing",
        Event.REOPEN: "serving",
        **ENDS,
    },
    "no graph": {Event.REOPEN: "observing", **ENDS},
    "refused": {Event.RETIRE: "refused", Event.RELEASE: "released"},
    "released": {Event.RELEASE: "released"},
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_every_event_in_every_state(state: State, event: Event) -> None:
    life = Life()
    life.state = state
    expected = TABLE[state.value].get(event)
    assert life.apply(event) is (expected is not None)
    assert life.state.value == (expected or state.value)


def test_the_table_names_every_state_and_nothing_leads_back_from_a_release() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set(TRANSITIONS[State.RELEASED].values()) == {State.RELEASED}
    assert set(TRANSITIONS[State.RETIRED].values()) <= CLOSED


def test_several_threads_apply_events_one_after_the_other() -> None:
    """Each change that a thread is told of is one of the table's."""
    life = Life()
    seen: list[list[tuple[State, Event, bool, State]]] = []

    def work(seed: int) -> None:
        source, mine = random.Random(seed), []
        seen.append(mine)
        for _ in range(3000):
            event = source.choice([e for e in Event if e is not Event.RELEASE])
            with life.lock:
                before = life.state
                moved = life.apply(event)
                mine.append((before, event, moved, life.state))
                if life.state is State.RETIRED:
                    life.state = State.OBSERVE

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for before, event, moved, after in itertools.chain.from_iterable(seen):
        expected = TABLE[before.value].get(event)
        assert (moved, after.value) == (expected is not None, expected or before.value)
    assert not life.lock.locked()


def test_a_claim_belongs_to_one_call_at_a_time() -> None:
    claim = Claim()

    def nested() -> str:
        assert claim.run(lambda: "taken twice", lambda: "busy") == "busy"
        return "had it"

    assert claim.run(nested, lambda: "busy") == "had it"
    assert claim.run(nested, lambda: "busy") == "had it"
    with pytest.raises(ZeroDivisionError):
        claim.run(lambda: 1 // 0, lambda: 0)
    assert claim.run(nested, lambda: "busy") == "had it"


def test_a_claim_is_free_when_its_holder_is_gone() -> None:
    claim = Claim()
    claim._give_back = lambda token: None  # type: ignore[method-assign]  # interrupted before it
    assert claim.run(lambda: 1, lambda: 0) == 1
    assert claim.run(lambda: 2, lambda: 0) == 2


def call_while(machine: Machine, act: Callable[[], None], where: str) -> None:
    """One call, in the middle of which another thread acts."""
    original = getattr(build if where == "capture" else machine.gpu, where)

    def meanwhile(*given: Any) -> Any:
        result = original(*given)
        thread = threading.Thread(target=act)
        thread.start()
        thread.join(timeout=20)
        assert not thread.is_alive(), "it waits for the capture"
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build if where == "capture" else machine.gpu, where, meanwhile)
        machine.call()


@pytest.mark.parametrize("where", ["capture", "launch"])
@pytest.mark.parametrize(
    ("end", "state"),
    [
        (Partition.close, "released"),
        (lambda partition: partition.leave("it says so"), "no graph"),
        (lambda partition: partition._end(Event.RETIRE, "it says so"), "refused"),
    ],
)
def test_an_end_during_another_threads_capture(
    machine: Machine, where: str, end: Callable[[Partition], None], state: str
) -> None:
    """A reset, a choice or a refusal: the graph never serves, and nothing of it is left."""
    machine.call()
    call_while(machine, lambda: end(machine.partition), where)
    assert machine.region.state == state
    assert machine.partition.replay is None
    launched = len([entry for entry in machine.gpu.log if entry[0] == "launch"])
    for _ in range(3):
        machine.call()
    machine.partition.refresh()
    assert machine.region.served == 0
    assert len([entry for entry in machine.gpu.log if entry[0] == "launch"]) == launched
    machine.environment.disposal.drain()
    assert (machine.gpu.executables, machine.gpu.graphs) == ({}, {})
    opened = [entry[0] for entry in machine.gpu.log]
    assert opened.count("reserve") == opened.count("free")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_a_pause_during_another_threads_capture_is_obeyed(machine: Machine) -> None:
    machine.call()
    call_while(machine, lambda: machine.partition.use(False), "capture")
    machine.call()
    machine.partition.refresh()
    assert (machine.region.served, machine.region.graphs) == (0, 1)
    machine.partition.use(True)
    machine.call()
    machine.partition.refresh()
    assert machine.region.served == 1


def test_threads_that_call_end_and_reopen_at_random(machine: Machine) -> None:
    """Results stay right, nothing waits for ever, and nothing is left at the end."""
    failures: list[BaseException] = []
    partition = machine.partition

    def calling(seed: int) -> None:
        try:
            state = machine.aligned()
            for _ in range(60):
                a = machine.aligned()
                total = a + state
                want = total * 0.5
                result, _ = partition([a, state])
                assert torch.equal(result, total + want)
                assert torch.equal(state, want)
        except BaseException as error:
            failures.append(error)

    def steering(seed: int) -> None:
        source = random.Random(seed)
        for _ in range(60):
            act = source.choice(["use", "unuse", "leave", "refresh"])
            if act == "leave":
                partition.leave("it says so")
            elif act == "refresh":
                partition.refresh()
            else:
                partition.use(act == "use")

    work = [threading.Thread(target=calling, args=(n,)) for n in range(3)]
    work += [threading.Thread(target=steering, args=(n,)) for n in range(2)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join(timeout=120)
        assert not thread.is_alive()
    assert failures == []
    partition.close()
    machine.environment.disposal.drain()
    assert (machine.gpu.executables, machine.gpu.graphs) == ({}, {})


def sized(
    monkeypatch: pytest.MonkeyPatch, **options: Any
) -> tuple[Backward, Callable[[Any], None]]:
    """A region whose first argument is a number, and a call of it, whose result is checked."""
    machine = Backward(monkeypatch, True, set(), **options)
    partition = machine.partition
    exec(SIZED.replace("range(n)", "range(int(abs(n)))"), names := partition._function.__globals__)
    partition._function = names["partition_0"]
    partition._signature = Signature(0, dynamic=True)

    def call(n: Any) -> None:
        a = machine.fresh()
        (result,) = partition([n, a])
        assert torch.equal(result, a * 0.5 ** (int(abs(n)) + 1))

    return machine, call


@pytest.mark.parametrize(
    "error", [Unprovable("it is the second"), torch.OutOfMemoryError("no memory")]
)
def test_a_refused_shape_does_not_retire_the_others(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    machine, call = sized(monkeypatch)
    capture = build.capture

    def refusing(*given: Any) -> Any:
        if given[2][0] == 2:
            raise error
        return capture(*given)

    monkeypatch.setattr(build, "capture", refusing)
    for n in (2, 2, 2, 2, 1, 1, 1, 1, 1):
        call(n)
    machine.partition.refresh()
    assert (machine.region.state, machine.region.graphs, machine.region.served) == ("serving", 1, 2)
    assert sum(machine.region.misses.values()) >= 2
    assert any(reason_of(error) == why for why in machine.region.misses)


def test_several_refused_kinds_without_a_graph_retire_the_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, call = sized(monkeypatch)

    def refusing(*given: Any) -> Any:
        raise Unprovable("it is a library's")

    monkeypatch.setattr(build, "capture", refusing)
    for n in (1, 1, 1, 2, 2, 2, 3, 3, 3, 4):
        call(n)
    assert machine.region.state == "refused"
    assert "it is a library's" in machine.region.reason


def test_an_argument_that_no_graph_can_follow_does_not_retire_other_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine, call = sized(monkeypatch)
    for _ in range(3):
        machine.partition([complex(0), machine.fresh()])
    for _ in range(5):
        call(1)
    machine.partition.refresh()
    assert machine.region.served == 2
    assert any("complex" in why for why in machine.region.misses)


def test_zeros_of_both_signs_are_kinds_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, call = sized(monkeypatch)
    for _ in range(4):
        call(0.0)
    machine.partition.refresh()
    served = machine.region.served
    assert served == 1
    call(-0.0)
    machine.partition.refresh()
    assert machine.region.served == served, "the graph of 0.0 has served -0.0"
    for _ in range(3):
        call(-0.0)
    machine.partition.refresh()
    assert (machine.region.graphs, machine.region.served) == (2, served + 1)


def test_a_freed_region_takes_its_graphs_with_it_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch)
    gc.collect()
    gc.disable()
    try:
        for _ in range(4):
            machine.call()
        assert machine.gpu.executables
        del machine.partition
        assert machine.gpu.executables == {}
    finally:
        gc.enable()


@pytest.mark.parametrize(("times", "state"), [(2, "serving"), (3, "refused")])
def test_padding_that_looks_like_an_address_is_captured_again(
    monkeypatch: pytest.MonkeyPatch, times: int, state: str
) -> None:
    machine = Machine(monkeypatch)
    patch_plan, seen = address_words.patch_plan, 0

    def disagreeing(*given: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen <= times:
            raise Disagreement("it uses what the two captures do not agree on")
        return patch_plan(*given)

    monkeypatch.setattr(address_words, "patch_plan", disagreeing)
    for _ in range(6):
        machine.call()
    machine.partition.refresh()
    assert machine.region.state == state
    assert seen == 3
