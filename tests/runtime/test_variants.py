"""Which kinds of calls get a graph when there are more of them than graphs."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pygraph_rt.capture import observe
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.region.limits import BYTES_PER_NODE, BackOff, GraphMemory
from pygraph_rt.region.variants import Variants
from tests.runtime.test_training_memory import Backward


class FakeGraph(SimpleNamespace):
    __hash__ = object.__hash__


def graph(launches: int = 0, nodes: int = 1) -> Any:
    return FakeGraph(launches=launches, nodes=nodes, held_nodes=nodes, closed=False)


def test_the_graph_that_was_served_least_lately_goes_first() -> None:
    variants = Variants(3)
    for key, launches in {"a": 50, "b": 9, "c": 20}.items():
        variants.find(key).replay = graph(launches)
    assert variants.full()
    assert variants.swap() is variants.find("b")
    variants.find("b").replay = graph(3)
    for key, launches in {"a": 52, "c": 24}.items():
        variants.find(key).replay = graph(launches)
    assert variants.swap() is variants.find("a")


def test_each_swap_asks_for_twice_as_many_calls() -> None:
    variants = Variants(1)
    variants.find("a").replay = graph()
    asked = []
    for _ in range(3):
        asked.append(variants.wanted())
        variants.swap()
    assert asked == [4, 8, 16]


def test_what_never_got_a_graph_is_forgotten_in_the_end() -> None:
    variants = Variants(2)
    variants.find("kept").replay = graph()
    for key in range(100):
        variants.find(key).calls = 1
    assert len(list(variants)) == 17
    assert variants.find("kept").replay is not None
    assert variants.find(99).calls == 1
    assert variants.find(0).calls == 0


def calls(machine: Backward, *alignments: int) -> None:
    """Calls whose saved tensor lies at the given alignments: kinds of calls of their own."""
    plain = machine.fresh
    for shift in alignments:
        room = machine.gpu.allocate((1024,), (1,), torch.float32)

        def shifted(room: torch.Tensor = room, shift: int = shift) -> torch.Tensor:
            return room[shift : shift + 64].copy_(torch.randn(64))

        machine.fresh = shifted if shift else plain  # type: ignore[method-assign]
        machine.call()
    machine.fresh = plain  # type: ignore[method-assign]


def test_more_kinds_of_calls_than_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Backward(monkeypatch, True, set(), variants=1)
    calls(machine, 0, 0, 0)
    assert (machine.region.graphs, machine.region.state) == (1, "serving")
    calls(machine, 16, 16, 16)
    assert machine.region.misses == {"there are more than 1 kinds of calls": 2}
    calls(machine, 16, 16, 16, 16)
    machine.environment.disposal.drain()
    assert machine.region.graphs == 1
    assert len(machine.gpu.executables) == 1
    machine.partition.refresh()
    served = machine.region.served
    calls(machine, *(4 * [0]), 16, 16)
    machine.partition.refresh()
    assert machine.region.served == served + 2
    assert len(machine.gpu.executables) == 1


def test_a_graph_counts_while_its_handles_live() -> None:
    memory = GraphMemory(lambda device: 1000 * BYTES_PER_NODE)
    kept, dropped, elsewhere = graph(nodes=10), graph(nodes=20), graph(nodes=500)
    for device, one in ((0, kept), (0, dropped), (1, elsewhere)):
        memory.add(device, one)
    assert memory.room(0, 0.1) == 70 * BYTES_PER_NODE
    assert memory.room(1, 0.1) == -400 * BYTES_PER_NODE
    kept.closed = True
    del dropped
    gc.collect()
    assert memory.room(0, 0.1) == 100 * BYTES_PER_NODE


def limited(monkeypatch: pytest.MonkeyPatch, nodes: int) -> Backward:
    """A machine whose graphs, of three nodes each, may have no more than `nodes` together."""
    machine = Backward(monkeypatch, True, set(), graph_memory=0.5)
    machine.environment.memory._capacity = lambda device: 2 * nodes * BYTES_PER_NODE
    return machine


def test_memory_bounds_graphs_as_their_number_does(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = limited(monkeypatch, 5)
    calls(machine, 0, 0, 0)
    assert machine.region.graphs == 1
    calls(machine, 16, 16, 16)
    (why,) = machine.region.misses
    assert "GPU memory" in why
    calls(machine, 16, 16, 16, 16)
    machine.environment.disposal.drain()
    machine.partition.refresh()
    assert machine.region.graphs == len(machine.gpu.executables) == 1
    assert machine.region.graph_bytes == 3 * BYTES_PER_NODE
    machine.partition.close()
    machine.partition.refresh()
    assert machine.region.graph_bytes == 0


@pytest.mark.parametrize("nodes", [5, 6])
def test_what_other_regions_hold_counts(monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    first = limited(monkeypatch, nodes)
    calls(first, 0, 0, 0)
    second = Backward(monkeypatch, True, set(), first, graph_memory=0.5)
    captured = first.gpu.log.count(("capture",))
    calls(second, *(40 * [0]))
    assert second.region.graphs == (nodes == 6)
    assert first.gpu.log.count(("capture",)) == captured + 2  # one capture, made twice
    assert ("GPU memory" in second.region.reason) == (nodes == 5)
    calls(first, 0, 0)
    first.partition.refresh()
    assert first.region.served == 3


def test_a_dynamic_shape_is_watched_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Backward(monkeypatch, True, set())
    machine.partition._signature = Signature(0, dynamic=True)
    traced = []
    learn = observe.learn_outputs
    monkeypatch.setattr(
        observe,
        "learn_outputs",
        lambda *given, **more: traced.append(1) or learn(*given, **more),
    )
    calls(machine, 0)
    assert not traced  # only the call before a capture has to be
    assert machine.region.misses == {"these are the first calls of their kind": 1}
    calls(machine, 0)
    assert len(traced) == 1
    assert machine.region.graphs == 0
    calls(machine, 0)
    assert machine.region.graphs == 1


SIZED = """
def partition_0(args):
    n, a = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("halve", a, buf0)
    for _ in range(n):
        launch("halve", buf0, buf0)
    return (buf0,)
"""


def test_shapes_that_take_turns_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Backward(monkeypatch, True, set())
    partition = machine.partition
    exec(SIZED, namespace := partition._function.__globals__)
    partition._function = namespace["partition_0"]
    partition._signature = Signature(0, dynamic=True)

    def call(n: int) -> None:
        a = machine.fresh()
        (result,) = partition([n, a])
        assert torch.equal(result, a * 0.5 ** (n + 1))

    for n in (1, 2, 3, 1, 2, 3, 1, 2, 3):
        call(n)
    assert machine.region.graphs == 3

    def looked_up(args: Any) -> Any:
        raise AssertionError("not by integers")

    monkeypatch.setattr(partition, "_prepare", looked_up)
    for n in (1, 3, 2, 2, 1):
        call(n)
    partition.refresh()
    assert machine.region.served == 5


def test_looks_that_come_to_nothing_get_rarer() -> None:
    back_off, looks = BackOff(), 0
    for _ in range(100_000):
        if back_off.calls:
            back_off.calls -= 1
        else:
            looks += 1
            back_off.lose()
    assert 32 * 10 < looks < 32 * 35
    back_off.renew()
    back_off.calls = 0
    for _ in range(32):
        assert back_off.calls == 0
        back_off.lose()
    assert back_off.calls == 32


def test_ever_new_kinds_of_calls_are_not_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Served kinds stay served meanwhile, and one that comes to stay gets its graph."""
    machine = Backward(monkeypatch, True, set())
    partition = machine.partition
    exec(SIZED.replace("n, a = args", "n, _, a = args"), names := partition._function.__globals__)
    partition._function = names["partition_0"]
    partition._signature = Signature(0, dynamic=True)
    looks = 0
    prepare = partition._prepare

    def counted(args: Any) -> Any:
        nonlocal looks
        looks += 1
        return prepare(args)

    monkeypatch.setattr(partition, "_prepare", counted)

    def call(size: int) -> None:
        a = machine.fresh()
        (result,) = partition([size % 3, size, a])
        assert torch.equal(result, a * 0.5 ** (size % 3 + 1))

    def served() -> int:
        partition.refresh()
        return machine.region.served

    for _ in range(3):
        call(1)
    before, looks = served(), 0
    for n in range(2, 602):
        call(n)
        call(1)
    assert served() == before + 600
    assert looks < 200
    for _ in range(600):
        call(0)
    assert machine.region.graphs == 2
    assert served() > before + 600
    assert "no graph came of the calls before it" in machine.region.misses
