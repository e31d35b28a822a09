"""A warning of "pending, uninvoked backwards" comes with advice that does not help.

`torch.func.grad_and_value` of a tiny model, compiled: the backward is in the graph, yet a pending
one is seen, and the advice (`no_grad`, marks) changes nothing. A linear layer of 8 x 1.

https://github.com/pytorch/pytorch/issues/176846
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import (
    OVERWRITTEN,
    Compile,
    Complaint,
    Setup,
    Step,
    fails,
    slower,
    warns,
)
from benchmarks.complaints.parts import drawn


def start(compile: Compile, setup: Setup) -> Step:
    layer = torch.nn.Linear(8, 1).to(setup.device)
    known = dict(layer.named_parameters())

    def loss(weights: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, weights, (x,)).sum()

    run = compile(torch.func.grad_and_value(loss))
    inputs = drawn(1, 4, 8, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        slopes, value = run(known, inputs[number % len(inputs)])
        return [value, *slopes.values()]

    return step


SYMPTOMS = (warns("uninvoked backwards"), fails(OVERWRITTEN), slower())
COMPLAINT = Complaint("training", start, SYMPTOMS)
