"""A decoder with caches as arguments gets no CUDA graph: 36 mutated inputs.

Dia's decoder, before its caches were rewritten: "skipping cudagraphs due to mutated inputs (36
instances)", 18 layers with keys and values. Here 18 layers of attention and MLP of 512, 4 heads of
128, caches of 256 positions passed in.

https://github.com/nari-labs/dia/pull/163
https://github.com/nari-labs/dia/pull/162
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips
from benchmarks.complaints.parts import drawn, mlp

Caches = list[tuple[torch.Tensor, torch.Tensor]]


class Cached(nn.Module):
    """A layer that writes one position's keys and values to caches."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.RMSNorm(size), nn.RMSNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = mlp(size, 2 * size, size, act=nn.SiLU)

    def forward(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, place: torch.Tensor
    ) -> torch.Tensor:
        """(batch, 1, size) at a place (1,), with caches (batch, heads, length, head)."""
        parts = self.qkv(self.first(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind()
        keys.index_copy_(2, place, key)
        values.index_copy_(2, place, value)
        mask = torch.arange(keys.shape[2], device=x.device) <= place
        y = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask[None, None, None])
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.second(x))


class Decoder(nn.Module):
    """Layers, each with its caches."""

    def __init__(self, layers: int, size: int, heads: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Cached(size, heads) for _ in range(layers))

    def forward(self, x: torch.Tensor, caches: Caches, place: torch.Tensor) -> torch.Tensor:
        """One position through all layers."""
        for layer, (keys, values) in zip(self.layers, caches, strict=True):
            x = layer(x, keys, values, place)
        return x


def start(compile: Compile, setup: Setup) -> Step:
    layers, size, heads = setup.size(18, 2), setup.size(512, 32), 4
    model = Decoder(layers, size, heads).to(setup.device, torch.bfloat16)
    run = compile(model)
    shape = (2, heads, 256, size // heads)
    kind = {"dtype": torch.bfloat16, "device": setup.device}
    caches = [(torch.zeros(shape, **kind), torch.zeros(shape, **kind)) for _ in range(layers)]
    inputs = drawn(1, 2, 1, size, device=setup.device, dtype=torch.bfloat16)
    places = torch.arange(256, device=setup.device).split(1)

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(inputs[number % len(inputs)], caches, places[number % 256])

    return step


COMPLAINT = Complaint(
    "written inputs", start, (skips("mutated inputs"),), tolerance=3e-2, check=40, repeats=False
)
