"""On two GPUs, in one process: what meets in one graph is refused by name, and a model on the
second GPU is served as on the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import nn

from tests.gpu.support import assert_same, graphed, regions, ungraphed

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
FIRST, SECOND = (torch.device("cuda", number) for number in (0, 1))


@pytest.fixture(autouse=True)
def first_is_current() -> Iterator[None]:
    """Every test begins, and must end, with GPU 0 as the current one."""
    torch.cuda.set_device(0)
    yield
    assert torch.cuda.current_device() == 0


def copied(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).to(SECOND) + 1


def made_there(x: torch.Tensor) -> torch.Tensor:
    there = torch.ones(64, 64, device=SECOND)
    return (x * 2 + (there @ there)[0].to(FIRST)).relu()


@pytest.mark.parametrize("work", [copied, made_there])
def test_tensors_of_two_gpus_in_one_graph_are_refused_by_name(
    work: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    fast, plain = graphed(work), ungraphed(work)
    for _ in range(5):
        x = torch.randn(64, device=FIRST)
        assert_same(fast(x), plain(x))
    found = regions()
    assert found and not any(r["served"] for r in found), found
    assert all("GPU" in r["reason"] or "cuda:1" in r["reason"] for r in found), found


def test_arguments_of_two_gpus_are_refused_by_name() -> None:
    def work(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2 + 1, y * 3 - 1

    fast, plain = graphed(work), ungraphed(work)
    for _ in range(5):
        x, y = torch.randn(64, device=FIRST), torch.randn(64, device=SECOND)
        assert_same(fast(x, y), plain(x, y))
    assert not any(r["served"] for r in regions()), regions()


def model(device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 256)]
    return nn.Sequential(*layers).to(device)


def test_a_model_on_the_second_gpu_is_served_while_the_first_is_current() -> None:
    net = model(SECOND)
    fast, plain = graphed(net), ungraphed(net)
    kept = []
    for number in range(12):
        x = torch.randn(8, 256, device=SECOND)
        results = []
        for way in (fast, plain):
            net.zero_grad()
            y = way(x)
            y.square().mean().backward()
            results.append([y, *(p.grad.clone() for p in net.parameters())])
        assert_same(*results, when=f"in step {number}")
        kept.append((results[0][0], results[1][0]))
    for mine, expected in kept:
        assert_same(mine, expected, "after later calls")
    served = [r["served"] for r in regions("serving")]
    assert len(served) == 2 and min(served) >= 8, regions()


def test_a_side_stream_of_the_second_gpu_is_the_one_that_a_graph_is_launched_on() -> None:
    net = model(SECOND)
    fast, plain = graphed(net), ungraphed(net)
    side = torch.cuda.Stream(SECOND)
    with torch.no_grad():
        expected = plain(torch.full((8, 256), 3.0, device=SECOND))
        for _ in range(12):
            x = torch.zeros(8, 256, device=SECOND)
            torch.cuda.synchronize(SECOND)
            with torch.cuda.stream(side):
                torch.cuda._sleep(20_000_000)  # about 10 ms
                x.fill_(3.0)
                found = fast(x)
            side.synchronize()
            assert_same(found, expected)


def test_two_models_on_two_gpus_take_turns() -> None:
    nets = [model(FIRST), model(SECOND)]
    fast = [graphed(net) for net in nets]
    plain = [ungraphed(net) for net in nets]
    with torch.no_grad():
        for _ in range(12):
            x = torch.randn(8, 256)
            for net, other, device in zip(fast, plain, (FIRST, SECOND), strict=True):
                here = x.to(device)
                assert_same(net(here), other(here))
    assert sum(r["served"] > 0 for r in regions("serving")) == 2, regions()
