"""A second call of a compiled function makes the first call's result unreadable.

A matrix product of 10 x 10, called twice; then both results are read. Neither
`cudagraph_mark_step_begin` nor fullgraph helps, says the thread.

https://github.com/pytorch/pytorch/issues/170604
https://github.com/pytorch/pytorch/issues/104435
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails
from benchmarks.complaints.parts import drawn


def start(compile: Compile, setup: Setup) -> Step:
    product = compile(lambda x: torch.matmul(x, x))
    inputs = drawn(1, 10, 10, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        with torch.no_grad():
            first = product(inputs[number % len(inputs)])
            second = product(inputs[(number + 1) % len(inputs)])
        return [first + 0, second + 0]

    return step


COMPLAINT = Complaint("outputs overwritten", start, (fails(OVERWRITTEN),))
