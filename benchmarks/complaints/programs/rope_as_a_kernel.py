"""A small compiled function costs more host time than the operations it replaces.

torch.compile as a generator of kernels: a rotary embedding of 32 heads of 128 on 16 tokens, where
the host is the limit.

https://github.com/pytorch/pytorch/issues/161783
https://github.com/pytorch/pytorch/issues/150488
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, slower
from benchmarks.complaints.parts import drawn


def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """(batch, heads, length, size) turned."""
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def start(compile: Compile, setup: Setup) -> Step:
    inputs = drawn(1, 1, 32, 16, 128, device=setup.device, dtype=torch.bfloat16)
    cos, sin, *_ = drawn(2, 16, 128, device=setup.device, dtype=torch.bfloat16)
    run = compile(rope)

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(inputs[number % len(inputs)], cos, sin)

    return step


SYMPTOMS = (slower("default", "eager"), slower("reduce-overhead", "eager"), slower())
COMPLAINT = Complaint("copies and overhead", start, SYMPTOMS, 100, 200, tolerance=3e-2)
