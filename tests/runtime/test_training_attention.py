"""Attention's dropout: the seed and offset that a forward hands on to its backward stay numbers on
the CPU, with and without graphs on either side.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.options import Options
from pygraph_rt.region.region import Partition
from pygraph_rt.reports.report import Region
from tests.runtime.software_gpu import COUNT, DRAWN, SoftwareGpu, _draw, install

FORWARD = """
def partition_0(args):
    a, = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    draw(buf0)
    buf1 = empty_strided_cuda((64,), (1,), torch.float32)
    mask = empty_strided_cuda((64,), (1,), torch.float32)
    seed, offset = attention(a, mask, buf1)
    nothing = unused()
    return (buf1, offset, buf0, nothing, seed)
"""
BACKWARD = """
def partition_0(args):
    g, offset, seed = args
    args.clear()
    buf0 = empty_strided_cuda((64,), (1,), torch.float32)
    mask = empty_strided_cuda((64,), (1,), torch.float32)
    attention_backward(g, seed, offset, mask, buf0)
    return (buf0,)
"""

SCALARS = {1: "offset", 3: "nothing", 4: "seed"}


class Attention:
    """An operator that keeps its numbers as torch's memory-efficient attention does."""

    def __init__(self, gpu: SoftwareGpu) -> None:
        self.gpu = gpu
        self.garbage = itertools.count(1)

    def scalar(self, value: int) -> torch.Tensor:
        """On the GPU under capture; what it holds there is of no importance here."""
        return torch.tensor(value)

    def forward(
        self, a: torch.Tensor, mask: torch.Tensor, out: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        offset = self.gpu.generator.get_offset()
        self.gpu.draw_random(mask)
        self.gpu.launch_kernel("add", a, mask, out)
        seed = self.gpu.generator.seed
        signed = seed - (1 << 64) if seed >> 63 else seed
        return self.scalar(signed), self.scalar(offset)

    def backward(
        self,
        g: torch.Tensor,
        seed: torch.Tensor,
        offset: torch.Tensor,
        mask: torch.Tensor,
        out: torch.Tensor,
    ) -> None:
        pack = self.gpu.generator._pack
        if self.gpu.recording is not None:
            state = pack(seed.data_ptr(), offset.data_ptr(), 0, True)
            where = mask.data_ptr().to_bytes(8, "little")
            self.gpu.recording.append(("draw", [state, where]))
        else:
            state = pack(seed.item() % (1 << 64), offset.item(), 0, False)
            _draw(state, mask.data_ptr())
        self.gpu.launch_kernel("add", g, mask, out)

    def unused(self) -> torch.Tensor:
        return self.scalar(next(self.garbage))


class Machine:
    """Forward and backward partitions on a software GPU, and the functions behind them."""

    def __init__(
        self, patch: pytest.MonkeyPatch, new: bool, scalars: dict[int, Any] = SCALARS
    ) -> None:
        self.gpu = SoftwareGpu()
        self.gpu.generator.new = new
        environment = install(patch, self.gpu)
        attention = Attention(self.gpu)
        self.functions: list[Any] = []
        self.regions: list[Region] = []
        self.partitions: list[Partition] = []
        extra = [Signature(0, scalars=scalars), Signature(0, numbers=frozenset({1, 2}))]
        for body, given in zip((FORWARD, BACKWARD), extra, strict=True):
            self.functions.append(
                self.gpu.generated(
                    body,
                    draw=self.gpu.draw_random,
                    attention=attention.forward,
                    attention_backward=attention.backward,
                    unused=attention.unused,
                )
            )
            self.regions.append(Region("partition 1 of 1"))
            self.partitions.append(
                Partition(
                    self.functions[-1],
                    self.regions[-1],
                    Options(graphs="always"),
                    environment,
                    given,
                )
            )

    def step(self, forward: Any, backward: Any, a: torch.Tensor) -> list[torch.Tensor]:
        out, offset, first, _, seed = forward([a])
        assert (offset.device.type, offset.dtype, offset.shape) == ("cpu", torch.int64, ())
        return [out, first, offset, seed, *backward([out, offset, seed])]

    def compare(self, forward: Any, backward: Any) -> None:
        """One step of the given functions and one without graphs, from the same generator."""
        a = self.gpu.allocate((COUNT,), (1,), torch.float32).copy_(torch.randn(COUNT))
        generator = self.gpu.generator
        start = generator.get_offset()
        actual = self.step(forward, backward, a)
        assert generator.get_offset() == start + 2 * DRAWN
        generator.set_offset(start)
        expected = self.step(*self.functions, a)
        for left, right in zip(actual, expected, strict=True):
            assert torch.equal(left, right)


@pytest.fixture(params=["2.11", "2.13"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch, request.param == "2.13")


def test_both_sides_are_served(machine: Machine) -> None:
    for seed in (3, 0, (1 << 64) - 1):
        machine.gpu.generator.seed = seed
        for _ in range(4):
            machine.compare(*machine.partitions)
    for partition, region in zip(machine.partitions, machine.regions, strict=True):
        partition.refresh()
        assert (region.state, region.served) == ("serving", 10), region.reason
        assert "bit for bit" in region.note


def test_either_side_may_take_the_ordinary_path(machine: Machine) -> None:
    forward, backward = machine.partitions
    for _ in range(3):
        machine.compare(forward, backward)
    for _ in range(3):
        machine.compare(forward, machine.functions[1])
        machine.compare(machine.functions[0], backward)


def test_seeds_on_the_gpu_take_the_ordinary_path(machine: Machine) -> None:
    _, backward = machine.partitions

    class OnGpu(torch.Tensor):
        is_cuda = True

    out = torch.zeros(COUNT)
    numbers = [torch.tensor(n).as_subclass(OnGpu) for n in (4, 9)]
    backward([out, *numbers])
    assert machine.regions[1].misses == {"its seeds came from a graph of the program's own": 1}


def test_seeds_that_nothing_reads_may_be_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch 2.15 returns them there when an attention drops nothing."""
    gpu = SoftwareGpu()
    environment = install(monkeypatch, gpu)
    body = BACKWARD.replace("attention_backward(g, seed, offset, mask, buf0)", "add(g, g, buf0)")

    def add(*given: torch.Tensor) -> None:
        gpu.launch_kernel("add", *given)

    signature = Signature(0, numbers=frozenset({1, 2}), unread=frozenset({1, 2}))
    function, region = gpu.generated(body, add=add), Region("partition 1 of 1")
    backward = Partition(function, region, Options(graphs="always"), environment, signature)

    class OnGpu(torch.Tensor):
        is_cuda = True

    for n in range(6):
        g = gpu.allocate((COUNT,), (1,), torch.float32).fill_(n)
        backward([g, *(torch.tensor(n).as_subclass(OnGpu) for n in (n, 9))])
    backward.refresh()
    assert (region.state, region.served) == ("serving", 4), (region.reason, region.misses)


def test_an_offset_that_no_kernel_draws_from_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(monkeypatch, False, {**SCALARS, 3: "offset"})
    for _ in range(3):
        a = machine.gpu.allocate((COUNT,), (1,), torch.float32).zero_()
        machine.step(*machine.partitions, a)
    assert "none of its kernels draws from" in machine.regions[0].reason
