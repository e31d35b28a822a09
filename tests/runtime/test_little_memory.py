"""A program that has just enough memory for its ordinary path, on a software GPU."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from pygraph_rt.capture import generated, record
from pygraph_rt.capture.operators import Operators
from pygraph_rt.errors import DriverError
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.options import Options
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from pygraph_rt.verify import snapshot
from pygraph_rt.verify.bits import Fingerprints
from tests.runtime.software_gpu import COUNT, DRAWN, SoftwareGpu, install

pytestmark = pytest.mark.usefixtures("way_of_taking")

BODY = """
def partition_0(args):
    saved, state, kept = args
    args.clear()
    noise = empty_strided_cuda((64,), (1,), torch.float32)
    draw(noise)
    launch("add", saved, noise, saved)
    launch("halve", state, state)
    takes(noise)
    draw(noise)
    launch("add", saved, noise, saved)
    launch("add", state, kept, state)
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", saved, state, buf0)
    return (buf0, state)
"""


class Emptied:
    """Counts how often torch's cache is emptied."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.times = 0
        patch.setattr(torch.cuda, "empty_cache", self)

    def __call__(self) -> None:
        self.times += 1


class Machine:
    """A partition that draws, writes to a state, and to something saved that nobody reads then.

    It runs out of memory in the middle of its ordinary path, `short` times.
    """

    def __init__(self, patch: pytest.MonkeyPatch, **options: Any) -> None:
        self.gpu = SoftwareGpu()
        self.environment = install(patch, self.gpu)
        self.region = Region("graph 0/0 backward partition 1 of 1")
        self.short = 0
        self.failed: list[weakref.ref[torch.Tensor]] = []
        self.partition = Partition(
            self.gpu.generated(BODY, draw=self.gpu.draw_random, takes=self.takes),
            self.region,
            Options(**options),
            self.environment,
            Signature(0, written=frozenset({0, 1}), donated=frozenset({0})),
        )
        self.twin = self.gpu.generated(BODY, draw=self.gpu.draw_random, takes=lambda noise: None)
        self.state, self.kept = self.fresh(), self.fresh()

    def fresh(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    def takes(self, noise: torch.Tensor) -> None:
        if self.gpu.recording is not None:
            return
        if self.short:
            self.short -= 1
            self.failed.append(weakref.ref(noise))
            error = torch.OutOfMemoryError("no memory")
            raise error  # which this frame, and so itself, keeps alive
        if self.failed:
            self.alone()
            self.failed.clear()

    def alone(self) -> None:
        """Nothing is left of the run that failed, and of the graph."""
        assert [tensor() for tensor in self.failed] == [None]
        assert self.gpu.executables == {}
        assert self.gpu.graphs == {}
        made = [entry[0] for entry in self.gpu.log]
        assert made.count("reserve") == made.count("free") > 0

    def call(self) -> None:
        """A call, compared with the same code on copies, from the same generator."""
        saved, generator = self.fresh(), self.gpu.generator
        twins = [self.fresh().copy_(t) for t in (saved, self.state, self.kept)]
        start = generator.get_offset()
        args = [saved, self.state, self.kept]
        del saved
        result, state = self.partition(args)
        assert args == []
        assert state is self.state
        assert generator.get_offset() == start + 2 * DRAWN
        generator.set_offset(start)
        expected, twin = self.twin(twins)
        assert torch.equal(result, expected)
        assert torch.equal(state, twin)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.mark.parametrize("share", [1, 1 << 60])
def test_a_call_that_had_no_room_beside_its_comparison_is_made_again_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    monkeypatch.setattr(snapshot, "_HOST_SHARE", share)
    emptied = Emptied(monkeypatch)
    machine.call()
    assert emptied.times == 0
    machine.short = 1
    machine.call()
    assert (machine.short, machine.failed) == (0, [])
    for _ in range(3):
        machine.call()
    assert machine.region.state == "refused"
    assert "too little memory for the comparison of its first call" in machine.region.reason
    assert machine.region.graphs == 0
    assert emptied.times == 1


def test_a_call_whose_results_find_no_room_again_is_made_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot.Aside, "put_back", lambda aside: False)
    for _ in range(4):
        machine.call()
    assert machine.region.state == "refused"
    assert "too little memory for the comparison of its first call" in machine.region.reason


def test_a_call_whose_results_do_not_come_again_is_compared_on_the_cpu(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as those of code that adds in another order each time."""

    def resize(storage: torch.UntypedStorage, nbytes: int) -> None:
        """What is given back is soon another's."""
        snapshot.whole(storage).fill_(77)

    moved: list[int] = []
    move = snapshot.Aside._move

    def noted(aside: snapshot.Aside, large: dict[int, torch.UntypedStorage]) -> None:
        moved.append(len(large))
        move(aside, large)

    monkeypatch.setattr(snapshot, "_LARGE", 1)
    monkeypatch.setattr(torch.UntypedStorage, "resizable", lambda storage: True)
    monkeypatch.setattr(torch.UntypedStorage, "resize_", resize)
    monkeypatch.setattr(Fingerprints, "same", lambda *given: False)
    monkeypatch.setattr(snapshot.Aside, "_move", noted)
    for _ in range(4):
        machine.call()
    assert moved == [1]
    assert machine.region.graphs == 1
    assert machine.region.state == "serving"


@pytest.mark.parametrize("keeps", [False, True])
def test_only_memory_that_nobody_else_may_have_is_set_aside(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    """An operator that is not torch's own may keep its result."""
    given: list[Any] = []
    original = snapshot.Aside.__init__
    monkeypatch.setattr(generated, "adds_in_any_order", lambda function: keeps)

    def noted(aside: snapshot.Aside, own: Any, beside: int, again: bool = False) -> None:
        given.append((set(own), again))
        original(aside, own, beside, again)

    monkeypatch.setattr(snapshot.Aside, "__init__", noted)
    if keeps:
        always = property(lambda self: True, lambda self, value: None)
        monkeypatch.setattr(Operators, "may_keep_memory", always, raising=False)
    for _ in range(3):
        machine.call()
    assert machine.region.graphs == 1
    own = set() if keeps else {0}
    assert given == [(own, not keeps), (own, False)]


def test_a_call_that_has_no_room_alone_is_the_callers_error(machine: Machine) -> None:
    machine.call()
    machine.short = 2
    args = [machine.fresh(), machine.state, machine.kept]
    with pytest.raises(torch.OutOfMemoryError):
        machine.partition(args)
    assert args == []
    machine.failed.clear()
    machine.call()


def test_other_kinds_of_calls_keep_their_graphs(machine: Machine) -> None:
    for _ in range(3):
        machine.call()
    assert machine.region.graphs == 1
    plain, room = machine.fresh, machine.gpu.allocate((1024,), (1,), torch.float32)
    for i in range(4):
        machine.fresh = lambda: room[16:80].copy_(torch.randn(COUNT))  # type: ignore[method-assign]
        machine.short, machine.alone = int(i == 1), lambda: None  # type: ignore[method-assign]
        with_room = [machine.fresh(), machine.state, machine.kept]
        machine.partition(with_room)
        machine.fresh = plain  # type: ignore[method-assign]
        machine.call()
    machine.partition.refresh()
    assert (machine.region.graphs, machine.region.served) == (1, 5)
    ((why, calls),) = machine.region.misses.items()
    assert "too little memory for the comparison of its first call" in why
    assert calls == 3


def no_memory(*arguments: Any) -> Any:
    raise torch.OutOfMemoryError("no memory")


def test_without_memory_for_copies_there_is_no_graph(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "with_copies", no_memory)
    for _ in range(4):
        machine.call()
    machine.environment.disposal.drain()
    assert "too little memory for the comparison" in machine.region.reason
    assert (machine.region.unserved, machine.gpu.executables) == (4, {})


def test_without_memory_for_the_graphs_results_there_is_no_graph(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied = Emptied(monkeypatch)
    machine.call()
    monkeypatch.setattr(machine.gpu, "launch", no_memory)
    for _ in range(3):
        machine.call()
    assert emptied.times == 1
    assert "too little memory for the comparison" in machine.region.reason
    machine.environment.disposal.drain()
    assert machine.gpu.executables == {}


class Watched:
    """Notes whether what failed on the way is alive when the ordinary path runs."""

    def __init__(self, machine: Machine) -> None:
        self.taken: list[StorageWeakRef] = []
        self.alive: list[list[bool]] = []
        machine.takes = self.takes  # type: ignore[method-assign]
        machine.partition._function.__globals__["takes"] = self.takes
        self._machine = machine

    def takes(self, noise: torch.Tensor) -> None:
        if self._machine.gpu.recording is None:
            self.alive.append([not storage.expired() for storage in self.taken])

    def note(self, taken: torch.Tensor) -> torch.Tensor:
        """Memory that belongs to what is going to fail."""
        self.taken.append(StorageWeakRef(taken.untyped_storage()))
        return taken


def test_a_capture_that_fails_holds_nothing_when_the_ordinary_path_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(machine)
    machine.call()

    def fails(*arguments: Any) -> Any:
        held = watched.note(torch.zeros(4))
        raise DriverError(f"a driver's error beside {held.numel()} numbers")

    monkeypatch.setattr(record, "capture_graph", fails)
    machine.call()
    assert watched.alive == [[], [False]]


def test_a_launch_that_fails_holds_nothing_when_the_ordinary_path_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(4):
        machine.call()
    watched = Watched(machine)
    replay = machine.partition.replay
    assert replay is not None
    allocate = replay._launcher.allocate
    replay._launcher.allocate = lambda *size: watched.note(allocate(*size))
    monkeypatch.setattr(machine.gpu, "launch", lambda executable, stream: 2)
    machine.call()
    assert watched.taken
    assert watched.alive == [[False] * len(watched.taken)]
    assert "driver refused it" in machine.region.reason
