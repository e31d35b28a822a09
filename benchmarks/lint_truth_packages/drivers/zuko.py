"""Normalising flows, their transformations and distributions."""

from __future__ import annotations

import torch
import zuko
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


def _log_prob(flow: nn.Module) -> Call:
    x, context = torch.randn(8, 3), torch.randn(8, 5)
    return call(lambda: flow(context).log_prob(x).mean())


def neural_spline_flow() -> Call:
    return _log_prob(zuko.flows.NSF(3, 5, transforms=2, hidden_features=(16,)))


def masked_autoregressive_flow_sample() -> Call:
    flow = zuko.flows.MAF(3, 5, transforms=2, hidden_features=(16,))
    context = torch.randn(8, 5)
    return call(lambda: flow(context).rsample((4,)))


def continuous_flow() -> Call:
    return _log_prob(zuko.flows.CNF(3, 5, hidden_features=(16,)))


def neural_autoregressive_flow() -> Call:
    return _log_prob(zuko.flows.NAF(3, 5, transforms=1, hidden_features=(16,)))


def gaussianization_flow() -> Call:
    return _log_prob(zuko.flows.GF(3, 5, transforms=2, hidden_features=(16,)))


def gaussian_mixture() -> Call:
    return _log_prob(zuko.flows.GMM(3, 5, components=4, hidden_features=(16,)))


def bernstein_flow() -> Call:
    return _log_prob(zuko.flows.BPF(3, 5, transforms=1, hidden_features=(16,)))


def spline_transform() -> Call:
    def both(x: torch.Tensor, w: torch.Tensor, h: torch.Tensor, d: torch.Tensor) -> torch.Tensor:
        transform = zuko.transforms.MonotonicRQSTransform(w, h, d)
        y = transform(x)
        return transform.inv(y) + transform.log_abs_det_jacobian(x, y)

    return call(both, *(torch.randn(8, n) if n else torch.randn(8) for n in (0, 6, 6, 5)))


def bisection() -> Call:
    def inverse(y: torch.Tensor) -> torch.Tensor:
        return zuko.utils.bisection(torch.tanh, y, -5.0, 5.0, n=20)

    return call(inverse, torch.rand(8))


def quadrature() -> Call:
    def area(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return zuko.utils.gauss_legendre(torch.exp, a, b, n=6)

    return call(area, torch.rand(8), 1.0 + torch.rand(8))


def odeint() -> Call:
    def solve(x: torch.Tensor) -> torch.Tensor:
        return zuko.utils.odeint(lambda t, x: -x * t, x, 0.0, 1.0)

    return call(solve, torch.randn(8, 3))


def box_distribution() -> Call:
    def sample(low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        box = zuko.distributions.BoxUniform(low, high)
        return box.log_prob(box.rsample((4,)))

    return call(sample, torch.zeros(3), torch.ones(3))


def sort_and_mixture() -> Call:
    def density(x: torch.Tensor, logits: torch.Tensor, loc: torch.Tensor) -> torch.Tensor:
        base = zuko.distributions.DiagNormal(loc, torch.ones_like(loc))
        return zuko.distributions.Mixture(base, logits).log_prob(x)

    return call(density, torch.randn(8, 3), torch.randn(4), torch.randn(4, 3))
