"""A buffer that a model computes in its first call and keeps makes the next call fail.

Gemma kept `inv_freq` on the module when it was first needed. A rotary embedding of head size 256,
8 heads, 16 tokens.

https://github.com/huggingface/transformers/pull/30775
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails, wrong
from benchmarks.complaints.parts import drawn


class Rotary(torch.nn.Module):
    """Computes its frequencies when they are first needed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.frequencies: torch.Tensor | None = None

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """(batch, heads, length, size) turned by their places (length,)."""
        if self.frequencies is None:
            powers = torch.arange(0, self.size, 2, device=x.device).float() / self.size
            self.frequencies = 1.0 / 10000.0**powers
        angles = places.float()[:, None] * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)


def start(compile: Compile, setup: Setup) -> Step:
    run = compile(Rotary(256).to(setup.device))
    inputs = drawn(1, 1, 8, 16, 256, device=setup.device)
    places = torch.arange(16, device=setup.device)

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(inputs[number % len(inputs)], places)

    return step


COMPLAINT = Complaint("outputs overwritten", start, (fails(OVERWRITTEN), wrong()))
