"""Function minimisation."""

from __future__ import annotations

from typing import Any

import torch
import torchmin
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


def _rosen(x: torch.Tensor) -> torch.Tensor:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def _bowl(x: torch.Tensor) -> torch.Tensor:
    return (x**4).sum() + torch.cosh(x - 1.0).sum() + 0.3 * x[0] * x[1]


def _minimum(method: str, **options: Any) -> Call:
    start = torch.tensor([1.3, 0.7, 0.8, 1.2], dtype=torch.float64)
    return call(torchmin.minimize, _rosen, start, method=method, max_iter=6, options=options)


def bfgs() -> Call:
    return _minimum("bfgs")


def l_bfgs() -> Call:
    return _minimum("l-bfgs", history_size=5)


def conjugate_gradient() -> Call:
    return _minimum("cg")


def newton_cg() -> Call:
    return _minimum("newton-cg")


def newton_exact() -> Call:
    return _minimum("newton-exact", handle_npd="lu")


def trust_exact() -> Call:
    return _minimum("trust-exact")


def trust_ncg() -> Call:
    return _minimum("trust-ncg")


def dogleg() -> Call:
    start = torch.tensor([0.3, -0.4, 0.5], dtype=torch.float64)
    return call(torchmin.minimize, _bowl, start, method="dogleg", max_iter=4)


def least_squares_trf() -> Call:
    def residuals(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])

    start = torch.tensor([-0.5, 0.8], dtype=torch.float64)
    return call(torchmin.least_squares, residuals, start, max_nfev=5)


def minimizer_as_optimizer() -> Call:
    layer, x = nn.Linear(3, 1), torch.randn(8, 3)
    optimizer = torchmin.Minimizer(layer.parameters(), method="bfgs", max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        return (layer(x) ** 2).mean()

    return Call(lambda: optimizer.step(closure), state=[layer, x])
