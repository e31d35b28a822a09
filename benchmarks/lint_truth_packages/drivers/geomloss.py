"""Optimal transport and kernel losses between samples."""

from __future__ import annotations

import geomloss
import torch
from geomloss import ot

from benchmarks.lint_truth_packages.programs import Call, call


def _clouds() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.rand(12, 3), torch.rand(10, 3)


def _weights(size: int) -> torch.Tensor:
    return torch.softmax(torch.randn(size), dim=0)


def _kernel(x: torch.Tensor, y: torch.Tensor, blur: float = 0.05, **unused: object) -> torch.Tensor:
    return torch.exp(-torch.cdist(x, y) / blur)


def sinkhorn() -> Call:
    return call(geomloss.SamplesLoss("sinkhorn", blur=0.1, backend="tensorized"), *_clouds())


def sinkhorn_unbalanced() -> Call:
    loss = geomloss.SamplesLoss("sinkhorn", p=2, blur=0.1, reach=0.5, backend="tensorized")
    x, y = _clouds()
    return call(loss, _weights(12), x, _weights(10), y)


def sinkhorn_potentials() -> Call:
    loss = geomloss.SamplesLoss("sinkhorn", potentials=True, debias=False, backend="tensorized")
    return call(loss, *_clouds())


def sinkhorn_batch_with_diameter() -> Call:
    loss = geomloss.SamplesLoss("sinkhorn", p=1, diameter=2.0, scaling=0.7)
    return call(loss, torch.rand(2, 12, 3), torch.rand(2, 10, 3))


def hausdorff() -> Call:
    return call(
        geomloss.SamplesLoss("hausdorff", kernel=_kernel, blur=0.2, backend="tensorized"),
        *_clouds(),
    )


def energy_distance() -> Call:
    return call(geomloss.SamplesLoss("energy", backend="tensorized"), *_clouds())


def gaussian_kernel() -> Call:
    return call(geomloss.SamplesLoss("gaussian", blur=0.3, backend="tensorized"), *_clouds())


def laplacian_kernel() -> Call:
    return call(geomloss.SamplesLoss("laplacian", blur=0.3, backend="tensorized"), *_clouds())


def solve_matrix() -> Call:
    def value(cost: torch.Tensor) -> torch.Tensor:
        return ot.solve(cost, reg=0.1, max_iter=10).value

    return call(value, torch.rand(12, 10))


def solve_samples() -> Call:
    def value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ot.solve_sample(x, y, reg=0.1, max_iter=10).value

    return call(value, *_clouds())


def solve_unbalanced_matrix() -> Call:
    def value(cost: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ot.solve(cost, reg=0.1, a=a, b=b, unbalanced=1.0, max_iter=10).plan

    return call(value, torch.rand(12, 10), _weights(12), _weights(10))
