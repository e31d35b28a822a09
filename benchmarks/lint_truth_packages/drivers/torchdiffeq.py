"""Solvers of ordinary differential equations."""

from __future__ import annotations

import torch
import torchdiffeq
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


class _Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y) * torch.cos(t)


def _start() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 3), torch.linspace(0.0, 1.0, 5)


def dopri5() -> Call:
    return call(torchdiffeq.odeint, _Field(), *_start())


def euler() -> Call:
    return call(torchdiffeq.odeint, _Field(), *_start(), method="euler")


def rk4_step_size() -> Call:
    options = {"step_size": 0.1, "perturb": True}
    return call(torchdiffeq.odeint, _Field(), *_start(), method="rk4", options=options)


def implicit_adams() -> Call:
    return call(torchdiffeq.odeint, _Field(), *_start(), method="implicit_adams")


def explicit_adams() -> Call:
    return call(torchdiffeq.odeint, _Field(), *_start(), method="explicit_adams")


def bosh3_jumps() -> Call:
    options = {"jump_t": torch.tensor([0.3, 0.6]), "max_num_steps": 200}
    return call(torchdiffeq.odeint, _Field(), *_start(), method="bosh3", options=options)


def tuple_state() -> Call:
    field = _Field()

    def both(t: torch.Tensor, y: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return field(t, y[0]), -y[1]

    state = (torch.randn(4, 3), torch.randn(2))
    return call(torchdiffeq.odeint, both, state, torch.linspace(0.0, 1.0, 4), rtol=1e-4)


def adjoint() -> Call:
    return call(torchdiffeq.odeint_adjoint, _Field(), *_start(), rtol=1e-4, atol=1e-4)


def adjoint_backward() -> Call:
    field, (start, times) = _Field(), _start()

    def step() -> torch.Tensor:
        out = torchdiffeq.odeint_adjoint(field, start, times, method="midpoint")
        out.sum().backward()
        return out

    return Call(step)


def event_time() -> Call:
    def fall(t: torch.Tensor, y: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        return y[1], torch.full_like(y[1], -9.8)

    def ground(t: torch.Tensor, y: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return y[0]

    state = (torch.tensor([10.0]), torch.tensor([0.0]))
    return call(torchdiffeq.odeint_event, fall, state, torch.tensor(0.0), event_fn=ground)


def dense_output() -> Call:
    start, _ = _start()
    return call(torchdiffeq.odeint_dense, _Field(), start, torch.tensor(0.0), torch.tensor(1.0))


def scipy_solver() -> Call:
    field, (start, times) = _Field(), _start()
    return Call(torchdiffeq.odeint, (field, start, times), {"method": "scipy_solver"}, grad=False)
