"""A number on the CPU keeps a whole function out of CUDA graphs.

`x + y` with y a 0-d tensor on the CPU: "skipping cudagraphs due to cpu device". An MLP of 256
between two such sums.

https://github.com/pytorch/pytorch/issues/119241
https://github.com/pytorch/pytorch/pull/125382
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips, slower
from benchmarks.complaints.parts import drawn, mlp


def start(compile: Compile, setup: Setup) -> Step:
    model = mlp(256, 256, 256, act=torch.nn.ReLU).to(setup.device)
    run = compile(lambda x, y: model(x + y) * y)
    inputs = drawn(1, 32, 256, device=setup.device)
    numbers = [torch.tensor(0.5 + n / 8) for n in range(8)]

    def step(number: int) -> torch.Tensor:
        with torch.no_grad():
            return run(inputs[number % len(inputs)], numbers[number % 8])

    return step


COMPLAINT = Complaint("CPU values", start, (skips("cpu device"), slower()))
