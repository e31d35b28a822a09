"""`torch.set_default_device` changes nothing: what is on the CPU stays there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from pygraph_rt.plan.outputs import Drawn, OutputPlan
from pygraph_rt.replay.results import Results
from pygraph_rt.rng import probe

VIEW = torch._C._dynamo.guards._reinterpret_tensor


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def test_seeds_that_a_replay_returns_are_cpu_tensors() -> None:
    results = Results(OutputPlan((), (Drawn(True, 0), Drawn(False, 4))), [], VIEW)
    seed, offset = results.make([], [], ((1 << 63) + 5, 8))
    assert (seed.device.type, offset.device.type) == ("cpu", "cpu")
    assert (seed.item(), offset.item()) == (5 - (1 << 63), 12)


def test_stand_ins_of_a_capture_are_cpu_tensors() -> None:
    (tensor,) = probe.stand_ins([3]).values()
    assert tensor.device.type == "cpu"
