"""The recorder on a GPU: waits beside the profiler's, host tensors, cost, and nothing changed."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._dynamo.backends.registry import lookup_backend

from benchmarks.trace_gpu import HOST, WAITING, busy, waits_of_the_profiler
from pygraph_rt.trace.model import Event
from pygraph_rt.trace.session import Trace
from pygraph_rt.trace.syncs import DEBUG_MODE
from tests.gpu.support import DEVICE, assert_same

ROUNDS = 7


def of(trace: Trace, kind: str) -> list[Event]:
    return [event for event in trace.events if event.kind == kind]


def events(run: Callable[[], Any], kind: str) -> list[Event]:
    with Trace() as trace:
        run()
    return of(trace, kind)


def copied_without_waiting(x: torch.Tensor) -> torch.Tensor:
    return HOST.pin_memory().to(DEVICE, non_blocking=True) + x


NOT_WAITING: dict[str, Callable[[torch.Tensor], Any]] = {
    "arithmetic": lambda x: x + 1,
    "a host number": lambda x: x * torch.tensor(3.0),
    "a pinned copy": copied_without_waiting,
    "a slice": lambda x: x[1:].sum(),
}


@pytest.mark.parametrize("name", [*WAITING, *NOT_WAITING])
def test_a_wait_is_recorded_with_its_line_and_time(name: str) -> None:
    operation = {**WAITING, **NOT_WAITING}[name]
    operation(busy())
    found: list[Event] = []
    # One run for both: another one takes another time where the GPU has other work.
    said, copies = waits_of_the_profiler(
        lambda: found.extend(events(lambda: operation(busy()), "sync"))
    )
    assert bool(said) == bool(found) == (name in WAITING), (said, found)
    if found:
        (event,) = found
        code = operation.__code__
        assert (event.place.file, event.place.line) == (code.co_filename, code.co_firstlineno)
        waited = event.duration_s
        assert (waited is None) == (event.detector == DEBUG_MODE and sys.version_info < (3, 12))
        if waited is not None:
            assert waited == pytest.approx(sum(said) + sum(copies), rel=0.2, abs=1e-3)


def test_waits_of_a_loop_are_counted() -> None:
    def run() -> None:
        x = torch.ones(4, device=DEVICE)
        for _ in range(5):
            x = x * 2
            x.sum().item()
            x[[0, 1]]

    run()
    assert len(waits_of_the_profiler(run)[0]) == 10
    assert [event.count for event in events(run, "sync")] == [5, 5]


def test_an_event_that_is_waited_for() -> None:
    def run() -> None:
        x = busy()
        done = torch.cuda.Event()
        done.record()
        done.synchronize()
        del x

    run()
    found: list[Event] = []
    said, _ = waits_of_the_profiler(lambda: found.extend(events(run, "sync")))
    (event,) = found
    assert event.duration_s == pytest.approx(sum(said), rel=0.2, abs=1e-3)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_waits_of_compiled_code_are_the_users(backend: str) -> None:
    """Neither the compiler's own waits nor a place in generated code."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x.long().sum().item()  # Inductor keeps a float as a tensor

    function = torch.compile(forward, backend=backend, fullgraph=True)
    x = torch.ones(4096, device=DEVICE)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        found = events(lambda: [function(x) for _ in range(3)], "sync")
    assert {event.place.file for event in found} == {__file__}
    assert sum(event.count for event in found) == 3


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_host_tensors_that_meet_the_gpu_in_compiled_code(backend: str) -> None:
    def forward(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        x = x * torch.tensor(3.0)
        x = x + torch.ones(4).to(DEVICE)
        x = x + x.new_tensor([1.0, 2.0, 3.0, 4.0])
        x = x * given
        return x[[0, 1]]

    function = torch.compile(forward, backend=backend, fullgraph=True)
    x, given = torch.ones(4, device=DEVICE), torch.tensor(2.0)
    found = events(lambda: [function(x, given) for _ in range(3)], "host_tensor")
    first = forward.__code__.co_firstlineno
    assert sorted(event.place.line - first for event in found) == [1, 2, 3, 4, 5]
    assert {event.count for event in found} == {1}


def test_torch_says_why_a_host_tensor_prevents_a_cuda_graph() -> None:
    def forward(x: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        return x * given.to(DEVICE)

    with torch._inductor.config.patch(graph_partition=False):
        function = torch.compile(forward, mode="reduce-overhead")
        with Trace() as trace:
            for _ in range(3):
                function(torch.ones(4, device=DEVICE), torch.ones(4))
    assert any("cpu device" in event.reason for event in of(trace, "graph_refused"))
    assert [e.place.line for e in of(trace, "host_tensor")] == [forward.__code__.co_firstlineno + 1]


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="compares times")
@pytest.mark.parametrize("backend", ["inductor", "pygraph"])
def test_time_of_a_region_on_the_gpu(backend: str) -> None:
    """Beside events around the whole, where the region is all that runs."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = x @ x
        return x

    function = torch.compile(forward, backend=backend)
    x = torch.eye(4096, device=DEVICE)
    function(x)
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with Trace() as trace, torch.no_grad():
        function(x)
        began.record()
        for _ in range(10):
            function(x)
        ended.record()
        torch.cuda.synchronize()
        wanted = began.elapsed_time(ended) / 1e3 / 10 * 11
    regions = [r for r in trace.to_dict()["regions"] if r["calls"] == 11]
    assert [r["device_s"] for r in regions] == [pytest.approx(wanted, rel=0.1)]


class Net(torch.nn.Module):
    """Layers, with a graph break that a value makes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As many values as it is given."""
        x = torch.relu(self.first(x))
        if x.sum() > -1:
            x = x * 2
        return self.second(x)


def trained(model: Any, steps: int) -> list[torch.Tensor]:
    """Losses and weights of some steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        loss = model(torch.randn(1024, 1024, device=DEVICE)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.tensor(loss.item()))
    return [*losses, *(one.detach().clone() for one in model.parameters())]


def trained_with_graphs() -> tuple[list[str], list[torch.Tensor]]:
    """What three steps hand to Inductor, and what comes of them."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    inductor = lookup_backend("inductor")
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph.code)
        return inductor(graph, inputs)

    return graphs, trained(torch.compile(Net().to(DEVICE), backend=backend), 3)


def test_graphs_and_results_are_the_same() -> None:
    graphs, results = trained_with_graphs()
    with Trace():
        traced_graphs, traced_results = trained_with_graphs()
    assert len(graphs) == 2
    assert traced_graphs == graphs
    assert_same(traced_results, results)


@pytest.mark.skipif("PYTEST_XDIST_WORKER" in os.environ, reason="compares times")
def test_what_a_trace_costs() -> None:
    """After a warm-up: each traced round beside the plain one before it, on a machine whose speed
    changes meanwhile.
    """
    torch.manual_seed(0)
    model = torch.compile(Net().to(DEVICE))
    trained(model, 10)
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * ROUNDS):
        with Trace() if number % 2 else nullcontext():
            trained(model, 10)
            torch.cuda.synchronize()
            began = time.perf_counter()
            trained(model, 100)
            torch.cuda.synchronize()
            took[number % 2 == 1].append(time.perf_counter() - began)
    ratios = [traced / plain for plain, traced in zip(took[False], took[True], strict=True)]
    assert statistics.median(ratios) <= 1.1, ratios
