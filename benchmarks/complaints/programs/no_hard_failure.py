"""Nobody can tell how much of a compiled model runs under CUDA graphs.

"We silently fallback": the thread asks for a hard failure or a final report. A recurrent state
that the caller holds is written by the model, so that nothing of it is graphed: 6 layers of 384
with a running mean.

https://github.com/pytorch/pytorch/issues/124506
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.complaints.base import Compile, Complaint, Setup, Step, skips, untold
from benchmarks.complaints.parts import Layer, drawn


class Model(nn.Module):
    """Layers whose output is centred by a running mean."""

    def __init__(self, size: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*[Layer(size, 6) for _ in range(layers)])

    def forward(self, x: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        """(batch, length, size); writes to the mean (size,)."""
        y = self.layers(x)
        mean.mul_(0.9).add_(y.mean((0, 1)) * 0.1)
        return y - mean


def start(compile: Compile, setup: Setup) -> Step:
    size = setup.size(384, 48)
    model = Model(size, setup.size(6, 1)).to(setup.device)
    mean = torch.zeros(size, device=setup.device)
    run = compile(model)
    inputs = drawn(1, 1, 64, size, device=setup.device)

    def step(number: int) -> list[torch.Tensor]:
        with torch.no_grad():
            return [run(inputs[number % len(inputs)], mean), mean]

    return step


COMPLAINT = Complaint(
    "reports", start, (untold(), skips("mutated")), tolerance=1e-2, check=40, repeats=False
)
