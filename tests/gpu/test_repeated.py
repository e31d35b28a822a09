"""Repeated blocks on a GPU: one graph serves the weights of all of them, bit for bit."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

import pygraph_rt
from pygraph_rt.verify.bits import same_bits
from tests.gpu.support import DEVICE, ordinary_path, regions


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, size: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Net(nn.Module):
    def __init__(self, layers: int = 8) -> None:
        super().__init__()
        self.enter = nn.Linear(16, 128)
        self.layers = nn.ModuleList(Block() for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return x


def net() -> Any:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Net().to(DEVICE)
    return pygraph_rt.compile_repeated_blocks(model, options={"graphs": "always"})


def test_one_graph_serves_all_blocks() -> None:
    model = net()
    inputs = [torch.randn(2, 32, 16, device=DEVICE) for _ in range(4)]
    with torch.no_grad():
        for x in inputs:
            model(x)
        with ordinary_path():
            expected = [model(x) for x in inputs]
        found = [model(x) for x in inputs]
    (region,) = regions("serving")
    assert region["graphs"] == 1
    assert region["served"] >= 8 * len(inputs)
    assert all(map(same_bits, found, expected))


def test_weights_that_are_replaced_and_swapped_between_blocks_are_used() -> None:
    model = net()
    x = torch.randn(2, 32, 16, device=DEVICE)
    with torch.no_grad():
        for _ in range(4):
            model(x)
        first, last = model.layers[0].up.weight, model.layers[7].up.weight
        model.layers[0].up.weight, model.layers[7].up.weight = last, first
        model.layers[3].qkv.weight = nn.Parameter(torch.randn_like(model.layers[3].qkv.weight) / 9)
        with ordinary_path():
            expected = model(x)
        assert same_bits(model(x), expected)
    (region,) = regions("serving")
    assert region["graphs"] == 1


def test_forward_and_backward_of_all_blocks() -> None:
    model = net()

    def gradients(x: torch.Tensor) -> list[torch.Tensor]:
        model.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        return [loss.detach(), *[p.grad for p in model.parameters()]]

    inputs = [torch.randn(2, 32, 16, device=DEVICE) for _ in range(3)]
    for x in inputs:
        gradients(x)
    with ordinary_path():
        expected = [gradients(x) for x in inputs]
    found = [gradients(x) for x in inputs]
    assert {region["graphs"] for region in regions("serving")} == {1}
    assert len(regions("serving")) == 2
    for ours, theirs in zip(found, expected, strict=True):
        assert all(map(same_bits, ours, theirs))
