"""Solvers of batches of ordinary differential equations, each with its own step size."""

from __future__ import annotations

import torch
import torchode
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


def _decay(t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return -y * (1.0 + t.unsqueeze(-1))


def _problem() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 3), torch.linspace(0.0, 1.0, 5).repeat(4, 1)


def _solve(adjoint: nn.Module, **named: object) -> Call:
    def solve(y0: torch.Tensor, t_eval: torch.Tensor) -> torch.Tensor:
        problem = torchode.InitialValueProblem(y0=y0, t_eval=t_eval)
        return adjoint.solve(problem, **named).ys

    return call(solve, *_problem())


def tsit5_integral_controller() -> Call:
    term = torchode.ODETerm(_decay)
    controller = torchode.IntegralController(atol=1e-4, rtol=1e-3, term=term)
    return _solve(torchode.AutoDiffAdjoint(torchode.Tsit5(term=term), controller))


def dopri5_pid_controller() -> Call:
    term = torchode.ODETerm(_decay)
    controller = torchode.PIDController(
        atol=1e-4, rtol=1e-3, pcoeff=0.2, icoeff=0.5, dcoeff=0.0, term=term, dt_max=0.5
    )
    return _solve(torchode.AutoDiffAdjoint(torchode.Dopri5(term=term), controller))


def euler_fixed_steps() -> Call:
    term = torchode.ODETerm(_decay)
    adjoint = torchode.AutoDiffAdjoint(torchode.Euler(term), torchode.FixedStepController())
    return _solve(adjoint, dt0=torch.full((4,), 0.1))


def heun_with_limit() -> Call:
    term = torchode.ODETerm(_decay)
    controller = torchode.IntegralController(atol=1e-4, rtol=1e-3, term=term, dt_min=1e-4)
    return _solve(torchode.AutoDiffAdjoint(torchode.Heun(term=term), controller, max_steps=8))


def without_step_size_gradients() -> Call:
    term = torchode.ODETerm(_decay)
    controller = torchode.IntegralController(atol=1e-4, rtol=1e-3, term=term)
    adjoint = torchode.AutoDiffAdjoint(
        torchode.Tsit5(term=term), controller, backprop_through_step_size_control=False
    )
    return _solve(adjoint)


def joint_backsolve() -> Call:
    term = torchode.ODETerm(_decay)
    controller = torchode.IntegralController(atol=1e-3, rtol=1e-3, term=term)
    return _solve(torchode.JointBacksolveAdjoint(term, torchode.Tsit5(term=term), controller))


def backsolve() -> Call:
    class Decay(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rate = nn.Parameter(torch.rand(3))

        def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return -self.rate * y

    term = torchode.ODETerm(Decay())
    controller = torchode.IntegralController(atol=1e-3, rtol=1e-3, term=term)
    return _solve(torchode.BacksolveAdjoint(term, torchode.Tsit5(term=term), controller))


def with_arguments() -> Call:
    def field(t: torch.Tensor, y: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
        return -rate * y

    term = torchode.ODETerm(field, with_args=True)
    controller = torchode.IntegralController(atol=1e-4, rtol=1e-3, term=term)
    return _solve(
        torchode.AutoDiffAdjoint(torchode.Tsit5(term=term), controller), args=torch.rand(3)
    )


def easy_interface() -> Call:
    return call(torchode.solve_ivp, _decay, *_problem(), method="tsit5")


def start_and_end_only() -> Call:
    term = torchode.ODETerm(_decay, with_stats=False)
    controller = torchode.IntegralController(atol=1e-4, rtol=1e-3, term=term)
    adjoint = torchode.AutoDiffAdjoint(torchode.Dopri5(term=term), controller)

    def solve(y0: torch.Tensor, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        problem = torchode.InitialValueProblem(y0=y0, t_start=start, t_end=end)
        return adjoint.solve(problem).ys

    return call(solve, torch.randn(4, 3), torch.zeros(4), torch.ones(4))
