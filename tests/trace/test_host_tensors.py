"""Host tensors that meet the device in compiled code. `meta` stands for the device: it needs no
GPU, and its operators take host tensors where those of a GPU do.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

from pygraph_rt.trace.host_tensors import meetings
from pygraph_rt.trace.session import Trace

DEVICE = "meta"
HELD = torch.tensor([1.0, 2.0, 3.0, 4.0])


def number(x: torch.Tensor) -> torch.Tensor:
    factor = torch.tensor(3.0)  # met
    return x * factor


def moved(x: torch.Tensor) -> torch.Tensor:
    return x + torch.ones(4).to(DEVICE)  # met


def made_then_moved(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(4)  # met
    mask = mask * 2
    return x + mask.to(x.device)  # met


def from_outside(x: torch.Tensor) -> torch.Tensor:
    return x + HELD.to(DEVICE)  # met


def index(x: torch.Tensor) -> torch.Tensor:
    rows = torch.tensor([0, 1])  # met
    return x[rows]


def written(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y[0] = torch.tensor(1.0)  # met
    return y


def two_numbers(x: torch.Tensor) -> torch.Tensor:
    low, high = torch.tensor(0.0), torch.tensor(1.0)  # met
    return torch.where(x > 0, low, high) + x.clamp(low, high)


def callee(x: torch.Tensor) -> torch.Tensor:
    def scaled(y: torch.Tensor) -> torch.Tensor:
        return y * torch.tensor(0.5)  # met

    return scaled(x + 1)


def on_the_device(x: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(4, device=x.device)
    return torch.where(mask > 0, x, 0.0) * 2.0


def only_on_the_host(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 2, torch.ones(4) * torch.tensor(3.0)


def only_asked(x: torch.Tensor) -> torch.Tensor:
    host = torch.ones(4)
    made = host.new_zeros(4, device=x.device) + torch.zeros_like(host, device=DEVICE)
    return x.view_as(host) + made


def slices(x: torch.Tensor) -> torch.Tensor:
    return x[1:, None] + x[0] + x[-1]


def met(function: Callable[..., Any]) -> list[int]:
    torch._dynamo.reset()
    with Trace() as trace:
        torch.compile(function, backend="eager", fullgraph=True)(torch.ones(4, device=DEVICE))
    found = [event for event in trace.events if event.kind == "host_tensor"]
    assert all(event.place.file == __file__ and event.compile_ids == ["0/0"] for event in found)
    return sorted(event.place.line for event in found)


@pytest.mark.parametrize(
    "function",
    [
        *(number, moved, made_then_moved, from_outside, index, written, two_numbers, callee),
        *(on_the_device, only_on_the_host, only_asked, slices),
    ],
)
def test_each_host_tensor_once_where_it_is_made_or_met(function: Callable[..., Any]) -> None:
    lines, first = inspect.getsourcelines(function)
    assert met(function) == [first + n for n, line in enumerate(lines) if "# met" in line]


def test_a_host_argument_is_met_where_it_is_used() -> None:
    def forward(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return x * factor

    with Trace() as trace:
        function = torch.compile(forward, backend="eager")
        for _ in range(3):
            function(torch.ones(4, device=DEVICE), torch.tensor(2.0))
    (event,) = [event for event in trace.events if event.kind == "host_tensor"]
    assert event.count == 1
    assert event.place.line == forward.__code__.co_firstlineno + 1
    assert event.details == {"operation": "mul"}


@pytest.mark.parametrize(
    ("target", "arguments", "found"),
    [
        (torch.tensor, ([1.0, 2.0],), 1),
        (torch.ones, (4,), 0),
        (operator.getitem, ("x", [0, 1]), 1),
        (operator.getitem, ("x", (slice(None), [0, 1])), 1),
        (operator.getitem, ("x", (slice(None), 1)), 0),
    ],
)
def test_data_of_python(target: Callable[..., Any], arguments: tuple[Any, ...], found: int) -> None:
    """Dynamo cannot trace these with `meta`, so the graph is written here."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    given = tuple(x if one == "x" else one for one in arguments)
    node = graph.call_function(target, given)
    graph.output(node)
    for one in (x, node):
        one.meta["example_value"] = torch.ones(4, device=DEVICE)
    assert len(meetings(torch.fx.GraphModule({}, graph))) == found
