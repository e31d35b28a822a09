"""A region of one GPU while another one is current: its stream, its clock, no slow path."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from pygraph_rt.inductor.partition_info import Signature
from pygraph_rt.region.region import Partition
from pygraph_rt.select.groups import CompiledGraph, Selector
from pygraph_rt.select.remembered import Decisions
from pygraph_rt.select.trial import Instruments
from tests.runtime.test_partition import Machine
from tests.runtime.test_selection_partition import Now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A region of GPU 1 while GPU 0 is current."""
    found = Machine(monkeypatch)
    current = [0]

    @contextlib.contextmanager
    def switch(device: int) -> Iterator[None]:
        before, current[0] = current[0], device
        try:
            yield
        finally:
            current[0] = before

    monkeypatch.setattr(torch.cuda, "device", switch)
    object.__setattr__(found.environment.platform, "device", lambda: current[0])
    found.partition = Partition(
        found.partition._function,
        found.region,
        found.partition._options,
        found.environment,
        Signature(1, written=frozenset({1})),
    )
    return found


def test_a_region_of_another_gpu_is_served_without_a_look(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        machine.call()

    def looked(args: Any) -> Any:
        raise AssertionError("the slow path")

    monkeypatch.setattr(machine.partition, "_prepare", looked)
    for _ in range(5):
        machine.call()
    machine.partition.refresh()
    assert (machine.region.state, machine.region.served) == ("serving", 6)
    assert machine.environment.platform.device() == 0


def test_a_trial_is_timed_on_the_regions_own_gpu(machine: Machine) -> None:
    devices: list[int] = []

    def stamp(device: int) -> Now:
        devices.append(device)
        return Now()

    selector = Selector(Instruments(time.perf_counter_ns, stamp, lambda: False))
    compiled = CompiledGraph(selector, Decisions(None))
    compiled.add(machine.partition)
    for _ in range(60):
        machine.call()
    assert set(devices) == {1}
