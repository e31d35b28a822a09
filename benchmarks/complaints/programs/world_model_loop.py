"""A recurrent world model can't be compiled with CUDA graphs, because of its loop over time.

Dreamer's world model was left out of compilation ("CUDA graph conflicts with RSSM loop"). A GRU
cell of 200 with its posterior, 50 sequences, 16 steps, then the backward through all of them.

https://github.com/pytorch/rl/pull/3445
"""

from __future__ import annotations

import torch
from torch import nn

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
from benchmarks.complaints.parts import drawn, mlp


class Cell(nn.Module):
    """One step of a recurrent state-space model."""

    def __init__(self, size: int, seen: int) -> None:
        super().__init__()
        self.enter = mlp(size + seen, size, size)
        self.cell = nn.GRUCell(size, size)
        self.leave = mlp(size, size, 2 * size)

    def forward(self, seen: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """An observation and the state before it, to the state after it and its distribution."""
        state = self.cell(self.enter(torch.cat([seen, state], -1)), state)
        return state, self.leave(state)


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(200, 16)
    cell = Cell(size, 64).to(setup.device)
    run = compile(cell)
    inputs = drawn(1, 16, 50, 64, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        cell.zero_grad(set_to_none=True)
        state = torch.zeros(50, size, device=setup.device)
        loss = torch.zeros((), device=setup.device)
        for seen in inputs[number % len(inputs)].unbind():
            state, found = run(seen, state)
            loss = loss + found.square().mean()
        loss.backward()
        return [loss, *[p.grad for p in cell.parameters() if p.grad is not None]]

    return step


SYMPTOMS = (fails(OVERWRITTEN), slower(), warns("uninvoked backwards"))
COMPLAINT = Complaint("RL loops", start, SYMPTOMS, warm_up=15, calls=4)
