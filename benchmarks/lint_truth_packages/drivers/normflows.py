"""Normalising flows, target distributions and samplers."""

from __future__ import annotations

import normflows
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _masked_affine() -> normflows.NormalizingFlow:
    flows = []
    for layer in range(2):
        mask = torch.tensor([float(layer % 2), float((layer + 1) % 2)])
        nets = [normflows.nets.MLP([2, 8, 2], init_zeros=True) for _ in range(2)]
        flows += [normflows.flows.MaskedAffineFlow(mask, *nets), normflows.flows.ActNorm(2)]
    target = normflows.distributions.TwoModes(2.0, 0.1)
    return normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), flows, target)


def forward_divergence() -> Call:
    return call(_masked_affine().forward_kld, torch.randn(16, 2))


def reverse_divergence() -> Call:
    flow = _masked_affine()
    return call(flow.reverse_kld, num_samples=16)


def reverse_alpha_divergence() -> Call:
    flow = _masked_affine()
    return call(flow.reverse_alpha_div, num_samples=16, alpha=0.5, dreg=True)


def sample_and_log_prob() -> Call:
    flow = _masked_affine()

    def both(x: torch.Tensor) -> torch.Tensor:
        return flow.sample(8)[1] + flow.log_prob(x)

    return call(both, torch.randn(8, 2))


def neural_spline() -> Call:
    flows = [normflows.flows.AutoregressiveRationalQuadraticSpline(2, 1, 8)]
    flows += [normflows.flows.LULinearPermute(2)]
    flow = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2), flows)
    return call(flow.forward_kld, torch.randn(16, 2))


def coupled_circular_spline() -> Call:
    flow = normflows.flows.CircularCoupledRationalQuadraticSpline(2, 1, 8, [0])
    return call(flow, torch.rand(16, 2))


def planar_and_radial() -> Call:
    planar, radial = normflows.flows.Planar((2,)), normflows.flows.Radial((2,))

    def both(x: torch.Tensor) -> torch.Tensor:
        return radial(planar(x)[0])[1]

    return call(both, torch.randn(16, 2))


def residual_flow() -> Call:
    net = normflows.nets.LipschitzMLP([2, 8, 2], init_zeros=True, lipschitz_const=0.9)
    flow = normflows.flows.Residual(net, n_exact_terms=2, reduce_memory=False)
    return call(flow, torch.randn(16, 2))


def glow_block() -> Call:
    return call(normflows.flows.GlowBlock(4, 8), torch.randn(2, 4, 8, 8))


def squeeze_and_split() -> Call:
    squeeze, split = normflows.flows.Squeeze(), normflows.flows.Split()
    return call(lambda x: split(squeeze(x)[0])[0], torch.randn(2, 8, 4, 4))


def masked_autoregressive() -> Call:
    return call(normflows.flows.MaskedAffineAutoregressive(3, 8), torch.randn(16, 3))


def hamiltonian_monte_carlo() -> Call:
    target = normflows.distributions.TwoModes(2.0, 0.1)
    flow = normflows.flows.HamiltonianMonteCarlo(target, 3, torch.zeros(2), torch.zeros(2))
    return call(flow, torch.randn(16, 2))


def metropolis_hastings() -> Call:
    target = normflows.distributions.TwoMoons()
    proposal = normflows.distributions.DiagGaussianProposal((2,), 0.1)
    return call(normflows.flows.MetropolisHastings(target, proposal, 3), torch.randn(16, 2))


def gaussian_mixture() -> Call:
    mixture = normflows.distributions.GaussianMixture(4, 2)

    def both(x: torch.Tensor) -> torch.Tensor:
        return mixture(8)[1] + mixture.log_prob(x)

    return call(both, torch.randn(8, 2))


def class_conditional() -> Call:
    base = normflows.distributions.ClassCondDiagGaussian(2, 4)
    flow = normflows.ClassCondFlow(base, [normflows.flows.AffineConstFlow(2)])
    return call(flow.forward_kld, torch.randn(8, 2), torch.randint(0, 4, (8,)))
