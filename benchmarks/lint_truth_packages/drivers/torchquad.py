"""Numerical integration in several dimensions."""

from __future__ import annotations

from typing import Any

import torch
import torchquad

from benchmarks.lint_truth_packages.programs import Call, call


def _bump(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(-(x**2).sum(dim=1))


def _domain() -> torch.Tensor:
    return torch.tensor([[-1.0, 1.0], [0.0, 2.0]])


def _integral(method: Any, **named: Any) -> Call:
    def integrate(domain: torch.Tensor) -> torch.Tensor:
        return method.integrate(_bump, dim=2, integration_domain=domain, **named)

    return call(integrate, _domain())


def trapezoid() -> Call:
    return _integral(torchquad.Trapezoid(), N=121)


def simpson() -> Call:
    return _integral(torchquad.Simpson(), N=121)


def boole() -> Call:
    return _integral(torchquad.Boole(), N=169)


def gauss_legendre() -> Call:
    return _integral(torchquad.GaussLegendre(), N=121)


def monte_carlo() -> Call:
    return _integral(torchquad.MonteCarlo(), N=200, seed=3)


def vegas() -> Call:
    return _integral(torchquad.VEGAS(), N=2000, seed=3, max_iterations=3)


def domain_as_list() -> Call:
    def integrate(scale: torch.Tensor) -> torch.Tensor:
        return torchquad.Simpson().integrate(
            lambda x: scale * _bump(x), dim=2, N=121, integration_domain=[[0, 1], [0, 1]]
        )

    return call(integrate, torch.tensor(2.0))


def several_outputs() -> Call:
    def both(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([_bump(x), x[:, 0] ** 2], dim=-1)

    def integrate(domain: torch.Tensor) -> torch.Tensor:
        return torchquad.Trapezoid().integrate(both, dim=2, N=121, integration_domain=domain)

    return call(integrate, _domain())


def sample_points() -> Call:
    method = torchquad.Simpson()

    def points(domain: torch.Tensor) -> torch.Tensor:
        grid, steps, count = method.calculate_grid(121, domain)
        values, _ = method.evaluate_integrand(_bump, grid)
        return method.calculate_result(values, 2, count, steps, domain)

    return call(points, _domain())


def monte_carlo_samples() -> Call:
    method = torchquad.MonteCarlo()

    def points(domain: torch.Tensor) -> torch.Tensor:
        return method.calculate_sample_points(100, domain, seed=3)

    return call(points, _domain())
