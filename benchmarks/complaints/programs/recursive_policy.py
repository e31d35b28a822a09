"""A compiled policy whose output is its next input gets slower and slower, or fails.

An MLP of 512, four layers, batch 1; its weights need gradients, its output is detached. The thread
counts 6,500 steps a second in default mode and ever fewer under reduce-overhead.

https://github.com/pytorch/pytorch/issues/138949
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
    records,
    slower,
    warns,
)
from benchmarks.complaints.parts import drawn, mlp


def start(compile: Compile, setup: Setup) -> Step:
    policy = mlp(512, 512, 512, 512, 512, act=torch.nn.Tanh).to(setup.device)
    run = compile(policy, fullgraph=True)
    seen = drawn(1, 1, 512, device=setup.device)[0]

    def step(number: int) -> torch.Tensor:
        nonlocal seen
        seen = run(seen).detach()
        return seen

    return step


SYMPTOMS = (fails(OVERWRITTEN), slower(), records(20), warns("uninvoked backwards"))
COMPLAINT = Complaint("RL loops", start, SYMPTOMS, check=40, repeats=False)
