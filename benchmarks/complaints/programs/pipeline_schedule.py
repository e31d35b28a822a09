"""A pipeline's schedule, with two forwards before their backwards, fails under reduce-overhead.

Megatron's non-interleaved schedule runs the forward of the next micro-batch before the backward of
the one before: "accessing tensor output of CUDAGraphs that has been overwritten". Two transformer
layers of 1024, 4 micro-batches of 2 x 256.

https://github.com/pytorch/pytorch/issues/148439
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails, wrong
from benchmarks.complaints.parts import Layer, drawn


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(1024, 32)
    model = nn.Sequential(Layer(size, 16), Layer(size, 16)).to(setup.device)
    run = compile(model)
    inputs = drawn(1, 2, setup.size(256, 8), size, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        model.zero_grad(set_to_none=True)
        waiting: list[torch.Tensor] = []
        for part in range(4):
            waiting.append(run(inputs[(number + part) % len(inputs)]))
            if len(waiting) == 2:
                waiting.pop(0).square().mean().backward()
        waiting.pop().square().mean().backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    return step


COMPLAINT = Complaint(
    "training", start, (fails(OVERWRITTEN), wrong()), warm_up=15, calls=6, tolerance=1e-2
)
