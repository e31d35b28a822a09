"""Controlled differential equations, and the interpolation of their controls."""

from __future__ import annotations

import torch
import torchcde
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


class _Field(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(4, 8)

    def forward(self, t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.net(z)).view(*z.shape[:-1], 4, 2)


def _series(missing: bool = False) -> torch.Tensor:
    times = torch.linspace(0.0, 1.0, 6)
    x = torch.stack([times.expand(3, 6), torch.randn(3, 6)], dim=-1)
    if missing:
        x[0, 2, 1] = float("nan")
        x[1, 0, 1] = float("nan")
    return x


def natural_cubic() -> Call:
    return call(torchcde.natural_cubic_coeffs, _series())


def natural_cubic_missing() -> Call:
    return call(torchcde.natural_cubic_coeffs, _series(True), torch.linspace(0.0, 5.0, 6))


def hermite() -> Call:
    return call(torchcde.hermite_cubic_coefficients_with_backward_differences, _series())


def hermite_missing() -> Call:
    return call(torchcde.hermite_cubic_coefficients_with_backward_differences, _series(True))


def linear_missing() -> Call:
    return call(torchcde.linear_interpolation_coeffs, _series(True))


def linear_rectilinear() -> Call:
    return call(torchcde.linear_interpolation_coeffs, _series(), rectilinear=0)


def evaluate_cubic() -> Call:
    def evaluate(coefficients: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        control = torchcde.CubicSpline(coefficients)
        return control.evaluate(t) + control.derivative(t)

    return call(evaluate, torchcde.natural_cubic_coeffs(_series()), torch.tensor(2.5))


def evaluate_linear() -> Call:
    def evaluate(coefficients: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        control = torchcde.LinearInterpolation(coefficients)
        return control.evaluate(t) + control.derivative(t)

    coefficients = torchcde.linear_interpolation_coeffs(_series())
    return call(evaluate, coefficients, torch.tensor([0.0, 2.5]))


def _solve(coefficients: torch.Tensor, field: nn.Module, z0: torch.Tensor, **named: object) -> Call:
    def solve(coefficients: torch.Tensor, z0: torch.Tensor) -> torch.Tensor:
        control = torchcde.CubicSpline(coefficients)
        return torchcde.cdeint(X=control, func=field, z0=z0, t=control.interval, **named)

    return call(solve, coefficients, z0)


def cde_adjoint() -> Call:
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(_series())
    return _solve(coefficients, _Field(), torch.randn(3, 4), method="rk4")


def cde_without_adjoint() -> Call:
    coefficients = torchcde.natural_cubic_coeffs(_series())
    return _solve(coefficients, _Field(), torch.randn(3, 4), adjoint=False, rtol=1e-2, atol=1e-2)


def cde_stochastic_backend() -> Call:
    coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(_series())
    named = {"backend": "torchsde", "method": "reversible_heun", "dt": 0.5, "adjoint": False}
    return _solve(coefficients, _Field(), torch.randn(3, 4), **named)


def grid_and_interval() -> Call:
    def read(coefficients: torch.Tensor) -> torch.Tensor:
        control = torchcde.LinearInterpolation(coefficients)
        return control.evaluate(control.grid_points[1:3]) + control.interval[1]

    return call(read, torchcde.linear_interpolation_coeffs(_series()))
