"""torchdiffeq: a neural ODE fitted to a spiral.

The package's own demonstration: two dimensions, an MLP of 50, 20 trajectories of 10 points, dopri5
(a fixed number of rk4 steps would be easier), RMSprop. The solver asks the GPU for its error after
each step; the right hand side is compiled.
"""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.frameworks.base import Framework, How, Meter, Setup


class Field(nn.Module):
    """The right hand side."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """(batch, 1, 2) to its derivative."""
        return self.net(y**3)


def loop(how: How, meter: Meter, setup: Setup) -> None:
    from torchdiffeq import odeint

    field = Field().to(setup.device)
    optimizer = torch.optim.RMSprop(field.parameters(), 1e-3)
    angle = torch.linspace(0.0, 25.0, 1000)
    spiral = torch.stack([angle.cos(), angle.sin()], -1) * torch.exp(-0.1 * angle)[:, None] * 2
    spiral, times = spiral.to(setup.device), (angle[:10] * 1.0).to(setup.device)
    starts = torch.randint(0, 990, (meter.total, 20))
    how.module(field)
    for begin in starts:
        target = torch.stack([spiral[begin + i] for i in range(10)])[:, :, None]
        optimizer.zero_grad()
        loss = (odeint(field, target[0], times) - target).abs().mean()
        loss.backward()
        optimizer.step()
        meter.tick(loss)


FRAMEWORK = Framework(("torchdiffeq",), loop, warm=20, steps=40)
