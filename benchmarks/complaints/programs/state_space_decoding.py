"""A state-space model's decoding gets no CUDA graph, for a reason nobody is told.

Mamba's decoding step writes its convolution and recurrence states. 24 layers of the 130M model's
width (768, inner 1536, state 16, convolution 4), batch 1; the states are arguments. 12 of 24
layers.

https://github.com/huggingface/transformers/issues/31645
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips, untold
from benchmarks.complaints.parts import drawn


class Mixer(nn.Module):
    """One decoding step of a selective state space, with its states written in place."""

    def __init__(self, size: int, inner: int, states: int = 16) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(size)
        self.enter, self.leave = nn.Linear(size, 2 * inner), nn.Linear(inner, size)
        self.kernel = nn.Parameter(torch.randn(inner, 4) / 2)
        self.select, self.time = nn.Linear(inner, 2 * states + 1), nn.Linear(1, inner)
        self.rate = nn.Parameter(torch.rand(inner, states))

    def forward(self, x: torch.Tensor, window: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        """(batch, size), last inputs (batch, inner, 4), state (batch, inner, states)."""
        value, gate = self.enter(self.norm(x)).chunk(2, -1)
        window.copy_(torch.cat([window[..., 1:], value[..., None]], -1))
        value = F.silu((window * self.kernel).sum(-1))
        step, into, out = self.select(value).split([1, state.shape[-1], state.shape[-1]], -1)
        step = F.softplus(self.time(step))[..., None]
        state.mul_(torch.exp(-step * self.rate)).add_(step * value[..., None] * into[:, None])
        return x + self.leave((state * out[:, None]).sum(-1) * F.silu(gate))


class Model(nn.Module):
    """Layers, each with its states."""

    def __init__(self, layers: int, size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Mixer(size, 2 * size) for _ in range(layers))

    def forward(
        self, x: torch.Tensor, states: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        """One position through all layers."""
        for layer, (window, state) in zip(self.layers, states, strict=True):
            x = layer(x, window, state)
        return x


def start(compile: Compile, setup: Setup) -> Step:
    layers, size = setup.size(12, 2), setup.size(768, 16)
    model = Model(layers, size).to(setup.device)
    run = compile(model)
    zeros = torch.zeros(1, 2 * size, 20, device=setup.device)
    states = [(zeros[..., :4].clone(), zeros[..., 4:].clone()) for _ in range(layers)]
    inputs = drawn(1, 1, size, device=setup.device)

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(inputs[number % len(inputs)], states)

    return step


SYMPTOMS = (skips("mutated inputs"), untold())
COMPLAINT = Complaint("written inputs", start, SYMPTOMS, tolerance=1e-2, check=40, repeats=False)
