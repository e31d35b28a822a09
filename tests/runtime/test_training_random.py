"""Random numbers: found in the parameters of both generations of torch, and the same with and
without a graph.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pygraph_rt.errors import DriverError, Unprovable
from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.options import Options
from pygraph_rt.plan.graph import Capture, Node
from pygraph_rt.plan.memory_blocks import AddressMap, Block, Range
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from pygraph_rt.rng import philox
from pygraph_rt.rng import probe as drawing
from tests.runtime.software_gpu import COUNT, DRAWN, LAYOUTS, SoftwareGpu, install

SEED, OFFSET = 0x7F00_1234_5000, 0x7F00_1234_5200
BODY = """
def partition_0(args):
    a, = args
    args.clear()
    noise = empty_strided_cuda((64,), (1,), torch.float32)
    draw(noise)
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    launch("add", a, noise, buf0)
    del noise
    more = empty_strided_cuda((64,), (1,), torch.float32)
    draw(more)
    extra()
    return (buf0, more)
"""


class Machine:
    """A software GPU with a partition that draws, and its twin without graphs."""

    def __init__(self, patch: pytest.MonkeyPatch, new: bool, **options: Any) -> None:
        self.gpu = SoftwareGpu()
        self.gpu.generator.new = new
        self.environment = install(patch, self.gpu)
        self.extra: Any = lambda: None
        self.function = self.gpu.generated(
            BODY, draw=self.gpu.draw_random, extra=lambda: self.extra()
        )
        self.region = Region("graph 0/0 forward partition 1 of 1")
        self.partition = Partition(
            self.function, self.region, Options(**options), self.environment, Signature(0)
        )

    def input(self) -> torch.Tensor:
        return self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))

    def call(self) -> None:
        """One call of the partition and one of the ordinary path, from the same generator."""
        a = self.input()
        generator = self.gpu.generator
        start = generator.get_offset()
        actual = self.partition([a])
        end = generator.get_offset()
        generator.set_offset(start)
        expected = self.function([a])
        assert end == generator.get_offset() == start + 2 * DRAWN
        for left, right in zip(actual, expected, strict=True):
            assert torch.equal(left, right)


@pytest.fixture(params=["2.11", "2.13"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch, request.param == "2.13")


def test_the_same_numbers_with_and_without_a_graph(machine: Machine) -> None:
    for seed in (3, 0, (1 << 64) - 1):
        machine.gpu.generator.seed = seed
        for _ in range(5):
            machine.call()
        machine.gpu.generator.set_offset(0)
        machine.call()
    machine.partition.refresh()
    assert machine.region.state == "serving", machine.region.reason
    assert machine.region.served == 16
    assert "bit for bit" in machine.region.note


def test_without_the_comparison_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, True, verify=False)
    for _ in range(5):
        machine.call()
    machine.partition.refresh()
    assert machine.region.served == 4


def test_the_probe_is_not_launched(machine: Machine) -> None:
    for _ in range(3):
        machine.call()
    (nodes,) = machine.gpu.executables.values()
    assert [machine.gpu.graph_nodes[n][0] for n in nodes] == ["draw", "add", "draw"]


def test_a_launch_that_fails_draws_nothing(machine: Machine) -> None:
    for _ in range(4):
        machine.call()

    def fail(call: str) -> int:
        return 700 if call == "launch" else 0

    machine.gpu.fail = fail
    machine.call()
    assert machine.region.state == "refused"
    assert "cuGraphLaunch failed" in machine.region.reason


def test_a_wrong_graph_leaves_the_generator_where_it_belongs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.call()
    launch = machine.gpu.launch

    def wrong(executable: int, stream: int) -> int:
        launch(executable, stream)
        raise DriverError("cuGraphLaunch failed with FAKE")

    monkeypatch.setattr(machine.gpu, "launch", wrong)
    for _ in range(3):
        machine.call()
    assert machine.region.state == "refused"


def test_drawing_another_amount_under_capture_is_refused_by_name(machine: Machine) -> None:
    def extra() -> None:
        if machine.gpu.recording is None:
            machine.gpu.generator.offset += DRAWN

    machine.extra = extra
    for _ in range(3):
        machine.partition([machine.input()])
    assert "different amounts of random numbers (8, 8 and 12" in machine.region.reason


@pytest.mark.parametrize("new", [False, True])
def test_an_unknown_use_of_the_state_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, new: bool
) -> None:
    machine = Machine(monkeypatch, new)

    def extra() -> None:
        if machine.gpu.recording is not None:
            where = machine.gpu.generator.states[-1][64].data_ptr()
            machine.gpu.recording.append(("add", [where.to_bytes(8, "little")] * 3))

    machine.extra = extra
    for _ in range(3):
        machine.partition([machine.input()])
    assert "state of the random number generator in a way" in machine.region.reason


# -- the words themselves


def state(size: int, in_graph: int, seed: int = SEED, offset: int = OFFSET) -> bytes:
    return struct.pack(LAYOUTS[size], seed, offset, in_graph, True)


def node(*fields: bytes) -> Node:
    return Node("kernel", "k", (), fields)


@pytest.mark.parametrize("size", [24, 32])
def test_a_probe_is_read(size: int) -> None:
    found = philox.read_probe(node(bytes(8), state(size, 12), bytes(size)), lambda w: w >> 40 != 0)
    assert found == philox.Probe(SEED, OFFSET, size, 12)


@pytest.mark.parametrize(
    "fields",
    [
        (bytes(24),),
        (state(24, 0), state(24, 4)),
        (state(24, 0, seed=5),),
        (state(24, 0)[:20] + bytes(4),),
        (state(24, 0) + bytes(16),),
    ],
)
def test_a_probe_that_looks_otherwise_is_refused(fields: tuple[bytes, ...]) -> None:
    with pytest.raises(Unprovable, match="does not know"):
        philox.read_probe(node(*fields), lambda w: w >> 40 != 0)


@given(
    size=st.sampled_from([24, 32]),
    before=st.integers(0, 6),
    draws=st.lists(st.integers(0, 1 << 20), min_size=1, max_size=4),
    seed=st.integers(0, (1 << 64) - 1),
    offset=st.integers(0, 1 << 40),
)
def test_states_become_what_the_ordinary_path_passes(
    size: int, before: int, draws: list[int], seed: int, offset: int
) -> None:
    """Any number of states, inside larger parameters, at any place aligned to four bytes."""
    filler = b"\x11\x22\x33\x44" * before
    nodes = [node(filler, filler + state(size, 4 * n) + filler) for n in draws]
    probe = philox.Probe(SEED, OFFSET, size, 0)
    states = philox.find_states(nodes, probe, {})
    assert [s.intragraph for s in states] == [4 * n for n in draws]
    for index, item in enumerate(nodes):
        own = [s for s in states if s.node == index]
        fields = [bytearray(f) for f in philox.as_numbers(item.fields, own, size)]
        for patch in philox.patches(own):
            base = seed if patch.block == philox.SEED else offset
            value = (base + patch.addend).to_bytes(8, "little")
            fields[patch.field][patch.offset : patch.offset + 8] = value
        ordinary = struct.pack(LAYOUTS[size], seed, offset + 4 * draws[index], 0, False)
        assert bytes(fields[1]) == filler + ordinary + filler
        assert bytes(fields[0]) == filler


@pytest.mark.parametrize("size", [24, 32])
@pytest.mark.parametrize(
    ("name", "in_graph", "refused"),
    [("fmha_cutlassB_f32", 0, True), ("fmha_cutlassB_f32", 4, False), ("mm", 0, False)],
)
def test_an_attention_whose_state_stays_on_the_gpu_is_refused_by_name(
    size: int, name: str, in_graph: int, refused: bool
) -> None:
    """Its forward would not fill it: that only happens with pointers to the generator's state."""
    where = 0x7F11_0000_0000
    held = state(size, in_graph, where + 512, where + 1024)
    blocks = AddressMap([Range(where, 4096, Block("pool", 0))])
    made = Capture((Node("kernel", name, (), (b"\0" * 8 + held,)),), frozenset(), blocks)
    probe = philox.Probe(SEED, OFFSET, size, 0)
    if refused:
        with pytest.raises(Unprovable, match="activation checkpointing"):
            drawing._check_handed_on(made, probe)
    else:
        drawing._check_handed_on(made, probe)


@pytest.mark.parametrize(
    "data",
    [
        state(24, 0)[:20] + b"\0" * 4,
        state(24, 0)[:12],
        OFFSET.to_bytes(8, "little") + SEED.to_bytes(8, "little") + bytes(16),
    ],
)
def test_pointers_to_the_state_outside_of_one_are_refused(data: bytes) -> None:
    with pytest.raises(Unprovable, match="does not know"):
        philox.find_states([node(data)], philox.Probe(SEED, OFFSET, 24, 0), {})
