"""Executables for several sets of weights: every launch has the addresses of its call; they are
kept where launches get faster, and freed where not.
"""

from __future__ import annotations

import random
from array import array
from typing import Any

import numpy as np
import pytest

from pygraph_rt.cuda import native
from pygraph_rt.cuda.structures import KernelNode, KernelParams, RawNode
from pygraph_rt.plan.graph import Patch, PatchPlan
from pygraph_rt.plan.memory_blocks import Block
from pygraph_rt.replay import weight_sets
from pygraph_rt.replay.executable import Executable, ExecutableGraph
from pygraph_rt.replay.node_params import NodeTemplates
from pygraph_rt.replay.weight_sets import LOOK_AT, best_place
from tests.runtime.fake_driver import FakeDriver

LAYERS, NODES = 5, 12
ACTIVATION, WEIGHT, OUT, SCRATCH = (
    *(Block("input", 0), Block("input", 1)),
    *(Block("output", 0), Block("pool", 0)),
)
ADDENDS = {ACTIVATION: 0, WEIGHT: 16, OUT: 0, SCRATCH: 512}


def patches() -> tuple[Patch, ...]:
    """All nodes read weights and write to the output; one each has other blocks, too."""
    found = []
    for node in range(NODES):
        found.append(Patch(node, 0, 0, WEIGHT, ADDENDS[WEIGHT]))
        found.append(Patch(node, 1, 0, OUT, ADDENDS[OUT]))
    found.append(Patch(0, 2, 0, ACTIVATION, ADDENDS[ACTIVATION]))
    found.append(Patch(1, 2, 0, SCRATCH, ADDENDS[SCRATCH]))
    return tuple(found)


class Clock:
    """Nanoseconds: a launch takes as long as its updates, and what a test says beside."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.each, self.more = 1000, 0

    def __call__(self) -> int:
        return self.each * len(self.driver.submitted) + self.more * len(self.driver.launches)


class Layers:
    """A graph that is launched for the layers of a model in turn."""

    def __init__(self, helper: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver = driver = FakeDriver()
        driver.sizes = {node + 50: [8, 8, 8] for node in range(NODES)}
        kernel, layout = bytes(KernelParams()), tuple((8 * i, 8) for i in range(3))
        raw = {
            n: RawNode(n + 50, KernelNode(f"k{n}", (), kernel, layout, 0, (b"\xab" * 8,) * 3))
            for n in range(NODES)
        }
        self.helper, self.templates = helper, NodeTemplates(raw, 0)
        for node in raw:
            self.templates.store(node, driver)  # type: ignore[arg-type]
        self.use(patches())
        self.room = 1 << 20
        self.clock = Clock(driver)
        monkeypatch.setattr(weight_sets.time, "perf_counter_ns", self.clock)
        self.launches = 0
        self.source = random.Random(0)

    def use(self, found: tuple[Patch, ...]) -> None:
        """Make the graph, with these patches."""
        self.patches = found
        self.groups = PatchPlan(found, NODES).by_block()
        self.addresses = array("Q", [0] * len(self.groups))
        executable = Executable(self.driver.instantiate(1), 1, self.templates)
        given = (self.driver, executable, self.groups, self.addresses, self.helper)
        self.graph = ExecutableGraph(*given)  # type: ignore[arg-type]

    def only_half_read_weights(self) -> None:
        """Of the nodes."""
        self.driver.log.clear()
        self.use(tuple(p for p in patches() if p.node < NODES // 2 or p.block != WEIGHT))

    def call(self, layer: int, **moved: int) -> int:
        """One launch; its number of node updates. Fails where a node has another call's address."""
        where = {
            ACTIVATION: 4096 * (layer + 1),
            WEIGHT: (1 << 20) * (layer + 1),
            OUT: (1 << 30) + 4096 * layer,
            SCRATCH: (1 << 40) + 256 * self.source.randrange(1 << 20),
        }
        where |= {block: moved[block.kind] for block in where if block.kind in moved}
        for place, block in enumerate(self.groups):
            self.addresses[place] = where[block]
        before = len(self.driver.submitted)
        assert self.graph.launch(7) == 0
        self.launches += 1
        if self.launches == LOOK_AT:
            self.graph.look_for_weight_sets(LOOK_AT, lambda: self._left() // NODES)
        _, _, nodes = self.driver.launches[-1]
        for patch in self.patches:
            word = nodes[patch.node + 50][patch.field]
            assert int.from_bytes(word, "little") == where[patch.block] + patch.addend
        return len(self.driver.submitted) - before

    def _left(self) -> int:
        return self.room - NODES * (self.graph.executables - 1)

    def run(self, steps: int) -> None:
        """All layers in turn."""
        for _ in range(steps):
            for layer in range(LAYERS):
                self.call(layer)

    @property
    def alive(self) -> int:
        """Executables that are not freed."""
        made = sum(entry[0] == "instantiate" for entry in self.driver.log)
        return made - sum(entry[0] == "destroy_exec" for entry in self.driver.log)


@pytest.fixture(params=["ctypes", "compiled"])
def layers(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> Layers:
    """Through both ways of launching."""
    helper = None
    if request.param == "compiled":
        helper = native.load(tmp_path_factory.getbasetemp())
        if helper is None:
            pytest.skip("no C compiler")
    return Layers(helper, monkeypatch)


SETTLED = (LOOK_AT + 3 * 256) // LAYERS


def test_each_layer_gets_an_executable_where_that_is_faster(layers: Layers) -> None:
    assert layers.call(0) == NODES
    assert layers.call(1) == NODES
    layers.run(SETTLED)
    used = set()
    for layer in range(LAYERS):
        assert layers.call(layer) == 1  # the node that has what moves
        used.add(layers.driver.launches[-1][0])
    assert len(used) == LAYERS
    assert layers.graph.executables == layers.alive == LAYERS + 1


def test_other_weights_later_are_served_too(layers: Layers) -> None:
    layers.run(SETTLED)
    for layer in (7, 2, 9, 2, 7):
        layers.call(layer)
    assert layers.call(2, output=1 << 34) == NODES
    assert layers.graph.executables == layers.alive == LAYERS + 1


def test_where_launches_get_no_faster_there_is_one_again(layers: Layers) -> None:
    layers.clock.each, layers.clock.more = 0, 1000
    layers.run(SETTLED)
    assert layers.graph.executables == layers.alive == 1
    assert layers.graph.launch == layers.graph.patcher.launch
    assert layers.call(0) == NODES


@pytest.mark.parametrize("count", [3, 7, 11])
def test_the_one_that_stays_has_the_addresses_of_each_call(layers: Layers, count: int) -> None:
    """Outputs come again in the next layer but one: what the nodes held long ago is no guide."""
    layers.only_half_read_weights()
    layers.clock.each, layers.clock.more = 0, 1000
    for number in range(LOOK_AT + 3 * 256 + 5 * count):
        layer = number % count
        layers.call(layer, output=(1 << 34) + 4096 * (layer % 2))
    assert layers.graph.executables == layers.alive == 1


def test_an_interrupt_where_it_is_settled_changes_nothing(
    layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle, left = layers.graph._settle, [3]

    def interrupted(launch: Any) -> None:
        left[0] -= 1
        if left[0] > 0:
            raise KeyboardInterrupt
        settle(launch)

    monkeypatch.setattr(layers.graph, "_settle", interrupted)
    interrupts = 0
    for number in range(SETTLED * LAYERS):
        try:
            layers.call(number % LAYERS)
        except KeyboardInterrupt:
            interrupts += 1
    assert interrupts == 2
    assert layers.graph.executables == LAYERS + 1


def test_without_room_there_is_one(layers: Layers) -> None:
    layers.room = NODES * 2  # for two more
    layers.run(SETTLED)
    assert layers.graph.executables == layers.alive == 1
    assert layers.call(0) == NODES


def test_where_the_driver_refuses_there_is_one(layers: Layers) -> None:
    layers.run(LOOK_AT // LAYERS + 40)
    layers.driver.fail = lambda call: int(call == "instantiate")
    layers.run(SETTLED)
    assert layers.graph.executables == layers.alive == 1


def test_one_set_of_weights_has_one_executable(layers: Layers) -> None:
    for step in range(SETTLED * LAYERS):
        layers.call(0, output=4096 * (step + 1))
    assert layers.graph.executables == layers.alive == 1
    assert layers.graph.launch == layers.graph.patcher.launch


def test_nodes_that_are_rarely_patched_are_not_looked_at(layers: Layers) -> None:
    for _ in range(LOOK_AT):
        layers.call(0)
    assert layers.graph.launch == layers.graph.patcher.launch


def test_the_graph_is_not_instantiated_again_meanwhile(layers: Layers) -> None:
    """What is in use then would be freed."""
    layers.run(LOOK_AT // LAYERS + 8)
    layers.graph.reinstantiate()
    layers.run(SETTLED)
    layers.graph.reinstantiate()
    layers.run(2)
    assert layers.graph.executables == layers.alive == LAYERS + 1


def test_an_interrupt_in_a_launch_is_made_good_by_the_next_one(
    layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers.run(SETTLED)
    patcher, use = layers.graph.patcher, layers.graph.patcher.use

    def interrupted(target: Any) -> None:
        use(target)
        raise KeyboardInterrupt

    for layer in (3, 0, 4):
        monkeypatch.setattr(patcher, "use", interrupted)
        with pytest.raises(KeyboardInterrupt):
            layers.call(layer)
        monkeypatch.setattr(patcher, "use", use)
        layers.call((layer + 1) % LAYERS)


def test_all_executables_are_handed_over_at_the_end(layers: Layers) -> None:
    layers.run(SETTLED)
    handles, _, _ = layers.graph.detach()
    assert len(set(handles)) == LAYERS + 1
    assert layers.graph.executables == 0


def rows(columns: list[list[int]]) -> Any:
    return np.array(columns, np.uint64).T


def test_the_input_that_goes_with_most_other_addresses_tells_sets_apart() -> None:
    steps = 30
    turns = [*range(4)] * steps
    weights = [100 + layer for layer in turns]
    outputs = [200 + layer for layer in turns]
    batches = [n // 4 % 2 for n in range(4 * steps)]  # two buffers in turn
    found = best_place(rows([batches, weights, outputs]), [0, 1], [1, 6, 6])
    assert found == 1


@pytest.mark.parametrize(
    "columns",
    [
        [[n % 3 for n in range(90)], [*range(90)]],  # all else is new on each call
        [[0] * 90, [n % 2 for n in range(90)]],  # one set
        [[*range(90)], [n % 2 for n in range(90)]],  # as many sets as calls
    ],
)
def test_no_input_tells_sets_apart_where_little_stays(columns: list[list[int]]) -> None:
    assert best_place(rows(columns), [0], [1, 8]) is None
