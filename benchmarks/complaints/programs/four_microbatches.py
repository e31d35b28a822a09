"""Four micro-batches give a quarter of the gradient, or an error, under CUDA graph trees.

Three linear layers, the gradients of four backward passes added up: the bias of the last layer got
0.25 instead of 1.

https://github.com/pytorch/pytorch/issues/96693
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails, wrong
from benchmarks.complaints.parts import drawn, mlp


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(512, 16)
    model = mlp(size, size, size, 1, act=torch.nn.ReLU).to(setup.device)
    run = compile(model)
    inputs = drawn(1, 16, size, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        model.zero_grad(set_to_none=True)
        for part in range(4):
            (run(inputs[(number + part) % len(inputs)]).mean() / 4).backward()
        return [p.grad for p in model.parameters() if p.grad is not None]

    return step


COMPLAINT = Complaint("training", start, (wrong(), fails(OVERWRITTEN)))
