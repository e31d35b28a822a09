"""A training step's memory stays with its CUDA graphs, and the rest of the program lacks it.

"CUDA Graph memory appears as unallocated" in the message of an error. A transformer of 1024, 6
layers, batch 8, 512 tokens, forward and backward under graphs; then an evaluation outside of them
takes memory of its own.

https://github.com/pytorch/pytorch/issues/121932
https://github.com/Lightning-AI/lightning-thunder/issues/1533
https://github.com/Lightning-AI/lightning-thunder/issues/1792
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, holds_memory
from benchmarks.complaints.parts import Layer, drawn


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(1024, 32)
    layers = [Layer(size, 16) for _ in range(setup.size(6, 1))]
    model = nn.Sequential(*layers).to(setup.device, torch.bfloat16)
    run = compile(model)
    length = setup.size(512, 8)
    inputs = drawn(1, 8, length, size, device=setup.device, dtype=torch.bfloat16)

    def step(number: int) -> list[torch.Tensor]:
        model.zero_grad(set_to_none=True)
        loss = run(inputs[number % len(inputs)]).float().square().mean()
        loss.backward()
        # Outside of the compiled code: as much memory as the activations take.
        outside = torch.ones(32, 8, length, 4 * size, dtype=torch.bfloat16, device=setup.device)
        return [loss, (outside.sum() * 0).float() + loss.detach()]

    return step


COMPLAINT = Complaint("memory", start, (holds_memory(1.1),), warm_up=12, calls=6, tolerance=3e-2)
