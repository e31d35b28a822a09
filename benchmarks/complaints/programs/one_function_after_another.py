"""Two compiled functions in a row fail under reduce-overhead.

The output of the first is the input of the second; torch begins a new iteration in between. The
functions of the thread, on its two numbers.

https://github.com/pytorch/pytorch/issues/160281
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails
from benchmarks.complaints.parts import drawn


def start(compile: Compile, setup: Setup) -> Step:
    first = compile(lambda x: x + 1)
    second = compile(lambda x: x * 2 + 1)
    inputs = drawn(1, 2, device=setup.device)

    def step(number: int) -> torch.Tensor:
        return second(first(inputs[number % len(inputs)]))

    return step


COMPLAINT = Complaint("outputs overwritten", start, (fails(OVERWRITTEN),))
