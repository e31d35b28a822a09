"""Graphs are skipped "due to mutated inputs", and nobody says which ones.

A user asks what was mutated, and where. An average of weights, `average += (weight - average) *
0.001`, over the parameters of 12 layers of 384, passed as lists.

https://github.com/pytorch/pytorch/issues/117281
"""

from __future__ import annotations

import torch

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips, untold
from benchmarks.complaints.parts import Layer


def average(averages: list[torch.Tensor], weights: list[torch.Tensor]) -> None:
    """Move each average towards its weight, in place."""
    torch._foreach_lerp_(averages, weights, 0.001)


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(384, 16)
    layers = [Layer(size, 4).to(setup.device) for _ in range(setup.size(12, 1))]
    weights = [p.detach() for layer in layers for p in layer.parameters()]
    averages = [torch.zeros_like(weight) for weight in weights]
    run = compile(average)

    def step(number: int) -> list[torch.Tensor]:
        run(averages, weights)
        return averages[:4]

    return step


COMPLAINT = Complaint(
    "written inputs", start, (skips("mutated inputs"), untold()), check=40, repeats=False
)
