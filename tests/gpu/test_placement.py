"""CPU values beside GPU tensors: eager's values and devices on each call, and served by a graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import pygraph_rt
from benchmarks.runtime.placement_cases import CASES, WIDTH, Case, Tensors
from pygraph_rt.host_values import ops
from tests.gpu.support import DEVICE, graphed, leaves, regions


def assert_like(ours: Any, theirs: Any) -> None:
    """The same devices, dtypes and, up to fused roundings, values."""
    for a, b in zip(leaves(ours), leaves(theirs), strict=True):
        assert (a.device.type, a.dtype, a.shape) == (b.device.type, b.dtype, b.shape)
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def inputs_of(case: Case, weight: torch.Tensor) -> Tensors:
    return [torch.randn(8, WIDTH, device=DEVICE), weight, *case.make()]


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_case_gives_eagers_values_and_devices_and_is_served(case: Case) -> None:
    weight = torch.randn(WIDTH, WIDTH, device=DEVICE) / WIDTH**0.5
    fast = graphed(case.function)
    kept = []
    with torch.no_grad():
        for _ in range(7):
            inputs = inputs_of(case, weight)
            others = [t.clone() for t in inputs]
            kept.append((fast(*inputs), case.function(*others)))
            assert_like(inputs, others)
        for ours, theirs in kept:
            assert_like(ours, theirs)
    found = regions()
    assert found
    for region in found:
        assert region["state"] == "serving", region["reason"]
        assert not region["host_notes"]


def doubled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A few layers, and an interpolation whose scale torch computes from the sizes."""
    for _ in range(8):
        x = torch.tanh(F.conv2d(x, weight, padding=1))
    return F.interpolate(x, scale_factor=2.0, mode="nearest") + 1


def test_values_of_sizes_are_constants_of_their_graph() -> None:
    weight = torch.randn(16, 16, 3, 3, device=DEVICE) / 12
    fast = torch.compile(
        doubled, backend=pygraph_rt.pygraph, dynamic=True, options={"graphs": "always"}
    )
    kept = []
    with torch.no_grad():
        for i in range(24):
            side = (10, 12, 14)[i % 3]
            x = torch.randn(1, 16, side, side + 5, device=DEVICE)
            kept.append((fast(x, weight), doubled(x, weight)))
        for ours, theirs in kept:
            assert_like(ours, theirs)
    (region,) = regions()
    assert region["state"] == "serving", region["reason"]
    assert (region["graphs"], region["host_values"]) == (3, 0)
    assert region["served"] >= 12
    assert len(ops.kept()) >= 3


def test_values_of_sizes_in_a_graph_of_the_callers_own() -> None:
    weight = torch.randn(16, 16, 3, 3, device=DEVICE) / 12
    fast = torch.compile(
        doubled, backend=pygraph_rt.pygraph, dynamic=True, options={"graphs": "always"}
    )
    x = torch.randn(1, 16, 10, 15, device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            fast(x, weight)
        for side in (10, 20):  # sizes that it has seen, and others
            x = torch.randn(1, 16, side, side + 5, device=DEVICE)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                result = fast(x, weight)
            for _ in range(2):
                x.copy_(torch.randn_like(x))
                graph.replay()
                assert_like(result, doubled(x, weight))


def scaled(x: torch.Tensor, weight: torch.Tensor) -> Any:
    """DeBERTa's scale, which is made of numbers; and numbers that are returned."""
    for _ in range(8):
        scale = torch.sqrt(torch.tensor(x.shape[-1], dtype=torch.float) * 3)
        x = torch.tanh(x @ weight / scale.to(x.dtype))
    return x, torch.tensor(512), torch.exp(torch.tensor(0.25)), torch.tensor([1.0, 2.0]) + 1


@pytest.mark.parametrize("training", [False, True])
def test_what_is_made_of_numbers_is_computed_once(training: bool) -> None:
    weight = torch.randn(WIDTH, WIDTH, device=DEVICE, requires_grad=training)
    fast = graphed(scaled)
    with torch.set_grad_enabled(training):
        for _ in range(8):
            x = torch.randn(8, WIDTH, device=DEVICE)
            ours, theirs = fast(x, weight), scaled(x, weight)
            assert_like(ours, theirs)
            if training:
                (ours_grad,) = torch.autograd.grad(ours[0].sum(), weight)
                (theirs_grad,) = torch.autograd.grad(theirs[0].sum(), weight)
                torch.testing.assert_close(ours_grad, theirs_grad, rtol=1e-3, atol=1e-3)
            for number in ours[1:]:
                number.zero_()  # the caller's own
    found = regions()
    assert len(found) == 1 + training  # forward and backward
    for region in found:
        assert region["state"] == "serving", region["reason"]
        assert region["host_values"] == 0


def test_a_pinned_value_may_be_written_to_right_after_the_call() -> None:
    weight = torch.randn(WIDTH, WIDTH, device=DEVICE) / WIDTH**0.5
    x = torch.randn(8, WIDTH, device=DEVICE)
    case = CASES["copied"]
    fast = graphed(case.function)
    bias = torch.zeros(WIDTH, pin_memory=True)
    with torch.no_grad():
        for i in range(6):
            bias.fill_(i)
            torch.cuda._sleep(20_000_000)
            ours = fast(x, weight, bias)
            bias.fill_(-1e9)
            torch.testing.assert_close(
                ours, case.function(x, weight, torch.full((WIDTH,), float(i))), rtol=1e-4, atol=1e-4
            )


def test_a_remembered_compilation_is_placed_too() -> None:
    case = CASES["sums"]
    weight = torch.randn(WIDTH, WIDTH, device=DEVICE) / WIDTH**0.5
    crossed = []
    for _ in range(2):
        torch._dynamo.reset()
        fast = graphed(case.function)
        with torch.no_grad():
            for _ in range(4):
                inputs = inputs_of(case, weight)
                assert_like(fast(*inputs), case.function(*inputs))
        (region,) = regions("serving")
        crossed.append((region["host_values"], region["host_bytes"]))
    assert crossed[0] == crossed[1]
    assert min(crossed[0]) > 0


def test_what_was_left_is_named_with_the_line() -> None:
    @torch.compile(backend=pygraph_rt.pygraph)
    def big(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        return x + values.to(x.device).sum()

    with torch.no_grad():
        for _ in range(3):
            x, values = torch.randn(8, device=DEVICE), torch.randn(1 << 16)
            torch.testing.assert_close(big(x, values), x + values.to(DEVICE).sum())
    (note,) = {n for r in regions() for n in r["host_notes"]}
    assert "(65536,)" in note
    assert "big at " in note
    assert "PG106" in note
    assert note in " ".join(str(pygraph_rt.report()).split())
