"""Accumulating gradients fails under reduce-overhead, in spite of clones and marks.

A linear layer of 10 x 1 whose gradients are not cleared between steps, with
`cudagraph_mark_step_begin` and clones of output and loss, as in the thread.

https://github.com/pytorch/pytorch/issues/169545
https://github.com/AlmondGod/tinyworlds/pull/12
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import OVERWRITTEN, Compile, Complaint, Setup, Step, fails, wrong
from benchmarks.complaints.parts import drawn


def start(compile: Compile, setup: Setup) -> Step:
    layer = torch.nn.Linear(10, 1).to(setup.device)
    run = compile(layer, fullgraph=True)
    inputs = drawn(1, 10, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        torch.compiler.cudagraph_mark_step_begin()
        if number % 4 == 0:
            layer.zero_grad(set_to_none=True)
        loss = run(inputs[number % len(inputs)].clone().requires_grad_()).clone().sum().clone()
        loss.backward()
        assert layer.weight.grad is not None
        assert layer.bias.grad is not None
        return [loss, layer.weight.grad, layer.bias.grad]

    return step


COMPLAINT = Complaint("training", start, (fails(OVERWRITTEN), wrong()))
