"""Time on the GPU's stream, with a GPU that is a clock and a place in it."""

from __future__ import annotations

import pytest
import torch

from pygraph_rt.trace.device_time import DeviceTime
from pygraph_rt.trace.session import Trace


class Stream:
    """A GPU: `put` queues work of so many milliseconds, `reached` is how far it has come."""

    def __init__(self) -> None:
        self.queued = 0.0
        self.reached = 0.0

    def put(self, ms: float) -> None:
        self.queued += ms

    def event(self) -> Moment:
        return Moment(self, self.queued)


class Moment:
    """What `torch.cuda.Event` is to the code."""

    def __init__(self, stream: Stream, at: float) -> None:
        self.stream, self.at = stream, at

    def query(self) -> bool:
        return self.stream.reached >= self.at

    def elapsed_time(self, other: Moment) -> float:
        assert self.query()
        assert other.query()
        return other.at - self.at


def run(device: DeviceTime, stream: Stream, calls: int, ms: float) -> None:
    for _ in range(calls):
        began = device.begin()
        stream.put(ms)
        device.end(began)
        stream.put(1.0)  # work of others


@pytest.mark.parametrize("calls", [1, 5, 16, 17, 100, 1000])
def test_all_calls_by_the_mean_of_those_that_were_measured(calls: int) -> None:
    stream = Stream()
    device = DeviceTime(stream.event)
    run(device, stream, calls, 2.0)
    assert device.seconds() is None  # nothing is waited for
    stream.reached = stream.queued
    assert device.seconds() == pytest.approx(calls * 2e-3)
    assert device.seconds() == pytest.approx(calls * 2e-3)


def test_what_the_gpu_has_not_come_to_is_bounded() -> None:
    stream = Stream()
    device = DeviceTime(stream.event)
    run(device, stream, 10_000, 2.0)
    assert len(device._pending) == 64
    stream.reached = stream.queued
    assert device.seconds() == pytest.approx(20.0)


def test_where_no_event_may_be_recorded_nothing_is_known() -> None:
    device = DeviceTime(lambda: None)
    device.end(device.begin())
    assert device.seconds() is None


def test_an_error_of_the_call_stays_the_error() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
        def fails(*args: torch.Tensor) -> object:
            raise ZeroDivisionError("of the callable")

        return fails

    torch._dynamo.reset()
    with Trace() as trace, pytest.raises(ZeroDivisionError, match="of the callable"):
        torch.compile(forward, backend=backend)(torch.ones(2))
    (region,) = trace.to_dict()["regions"]
    assert (region["calls"], region["device_s"]) == (1, None)
