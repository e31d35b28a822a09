"""Swapping LoRA adapters records CUDA graphs again, silently.

"static input data pointer changed": an adapter whose tensors replace those of the one before. 8
MLPs of 1024 with adapters of rank 16; on every second step another one of twelve adapters.

https://github.com/huggingface/peft/pull/2611
https://github.com/huggingface/diffusers/pull/9453
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, records, slower
from benchmarks.complaints.parts import drawn


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter."""

    def __init__(self, size: int, rank: int) -> None:
        super().__init__()
        self.base = nn.Linear(size, size)
        self.down, self.up = nn.Linear(size, rank, bias=False), nn.Linear(rank, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, size) to the same."""
        return x + torch.relu(self.base(x) + self.up(self.down(x)) * 0.5)


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(1024, 32)
    model = nn.Sequential(*[Adapted(size, 16) for _ in range(8)])
    model.to(setup.device, torch.bfloat16).requires_grad_(False)
    changing = [p for layer in model for p in (layer.down.weight, layer.up.weight)]
    source = torch.Generator().manual_seed(0)
    adapters = [
        [torch.randn(p.shape, generator=source).to(p) / 32 for p in changing] for _ in range(12)
    ]
    run = compile(model)
    inputs = drawn(1, 16, size, device=setup.device, dtype=torch.bfloat16)

    def step(number: int) -> torch.Tensor:
        if number % 2 == 0:
            for parameter, value in zip(changing, adapters[number // 2 % 12], strict=True):
                parameter.data = value
        with torch.no_grad():
            return run(inputs[number % len(inputs)])

    return step


COMPLAINT = Complaint("addresses change", start, (records(8), slower()), tolerance=3e-2)
