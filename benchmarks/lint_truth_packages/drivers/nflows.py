"""Normalising flows: density of data, samples, transforms."""

from __future__ import annotations

import torch
from nflows import distributions, flows, transforms
from nflows.nn.nets import ResidualNet
from nflows.transforms.splines import rational_quadratic_spline
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


def _net(inputs: int, outputs: int) -> nn.Module:
    return ResidualNet(inputs, outputs, hidden_features=16, num_blocks=1)


def masked_autoregressive_density() -> Call:
    flow = flows.MaskedAutoregressiveFlow(4, 16, num_layers=2, num_blocks_per_layer=1)
    return call(flow.log_prob, torch.randn(8, 4))


def masked_autoregressive_sample() -> Call:
    flow = flows.MaskedAutoregressiveFlow(4, 16, num_layers=2, num_blocks_per_layer=1)
    return call(flow.sample, 6)


def real_nvp_density() -> Call:
    flow = flows.SimpleRealNVP(4, 16, num_layers=2, num_blocks_per_layer=1)
    return call(flow.log_prob, torch.randn(8, 4))


def spline_coupling() -> Call:
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    transform = transforms.PiecewiseRationalQuadraticCouplingTransform(
        mask, _net, tails="linear", num_bins=5, tail_bound=2.0
    )
    return call(transform, 2 * torch.randn(8, 4))


def spline_coupling_inverse() -> Call:
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    transform = transforms.PiecewiseQuadraticCouplingTransform(
        mask, _net, tails="linear", num_bins=5, tail_bound=2.0
    )
    return call(transform.inverse, torch.randn(8, 4))


def spline_function() -> Call:
    widths, heights = torch.randn(8, 4, 5), torch.randn(8, 4, 5)
    return call(rational_quadratic_spline, torch.rand(8, 4), widths, heights, torch.randn(8, 4, 6))


def cubic_autoregressive() -> Call:
    transform = transforms.MaskedPiecewiseCubicAutoregressiveTransform(5, 4, 16, num_blocks=1)
    return call(transform, torch.rand(8, 4))


def batch_norm_and_lu() -> Call:
    steps = [transforms.BatchNorm(4), transforms.LULinear(4), transforms.ActNorm(4)]
    return call(transforms.CompositeTransform(steps), torch.randn(8, 4))


def orthogonal_and_permutation() -> Call:
    steps = [transforms.HouseholderSequence(4, 3), transforms.RandomPermutation(4)]
    return call(transforms.CompositeTransform(steps).inverse, torch.randn(8, 4))


def squash() -> Call:
    steps = [transforms.Sigmoid(), transforms.Logit(), transforms.LeakyReLU()]
    return call(transforms.CompositeTransform(steps), torch.randn(8, 4))


def mixture_density() -> Call:
    mixture = distributions.MADEMoG(4, 16, 3, num_blocks=1, num_mixture_components=3)
    return call(mixture.log_prob, torch.randn(8, 4), context=torch.randn(8, 3))


def conditional_gaussian() -> Call:
    density = distributions.ConditionalDiagonalNormal([4], nn.Linear(3, 8))
    return call(density.sample_and_log_prob, 5, context=torch.randn(2, 3))
