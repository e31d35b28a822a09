"""Spiking neurons, their encodings, losses and metrics."""

from __future__ import annotations

import snntorch
import torch
from snntorch import functional, spikegen, surrogate, utils
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


def _current() -> torch.Tensor:
    return torch.randn(4, 6)


def leaky() -> Call:
    neuron = snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid())
    return call(neuron, _current(), torch.rand(4, 6))


def leaky_hidden_state() -> Call:
    neuron = snntorch.Leaky(beta=0.9, init_hidden=True, learn_beta=True, reset_mechanism="zero")

    def steps(current: torch.Tensor) -> torch.Tensor:
        neuron.reset_mem()
        return torch.stack([neuron(current) for _ in range(3)])

    return call(steps, _current())


def synaptic() -> Call:
    neuron = snntorch.Synaptic(alpha=0.9, beta=0.8, spike_grad=surrogate.atan())
    return call(neuron, _current(), torch.rand(4, 6), torch.rand(4, 6))


def alpha() -> Call:
    neuron = snntorch.Alpha(alpha=0.9, beta=0.8)
    return call(neuron, _current(), torch.rand(4, 6), torch.rand(4, 6), torch.rand(4, 6))


def recurrent_leaky() -> Call:
    neuron = snntorch.RLeaky(beta=0.9, linear_features=6)
    return call(neuron, _current(), torch.zeros(4, 6), torch.rand(4, 6))


def lapicque() -> Call:
    return call(snntorch.Lapicque(R=1.0, C=5.0), _current(), torch.rand(4, 6))


def spiking_lstm() -> Call:
    neuron = snntorch.SLSTM(6, 8)
    return call(neuron, _current(), torch.zeros(4, 8), torch.zeros(4, 8))


def leaky_parallel() -> Call:
    return call(snntorch.LeakyParallel(6, 8), torch.randn(5, 4, 6))


def rate_encoding() -> Call:
    return call(spikegen.rate, torch.rand(4, 6), num_steps=5)


def latency_encoding() -> Call:
    named = {"num_steps": 8, "tau": 5.0, "threshold": 0.01, "normalize": True, "linear": True}
    return call(spikegen.latency, torch.rand(4, 6), **named)


def delta_encoding() -> Call:
    return call(spikegen.delta, torch.rand(8, 6), threshold=0.1, padding=True, off_spike=True)


def rate_loss_and_accuracy() -> Call:
    criterion = functional.ce_rate_loss()

    def both(spikes: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return criterion(spikes, target) + functional.accuracy_rate(spikes, target)

    return call(both, torch.rand(5, 4, 6), torch.randint(0, 6, (4,)))


def count_loss_with_populations() -> Call:
    criterion = functional.mse_count_loss(
        correct_rate=0.8, incorrect_rate=0.2, population_code=True, num_classes=3
    )
    return call(criterion, torch.rand(5, 4, 6), torch.randint(0, 3, (4,)))


def temporal_loss() -> Call:
    criterion = functional.mse_temporal_loss()
    spikes = (torch.rand(5, 4, 6) > 0.7).float()
    return call(criterion, spikes.requires_grad_(), torch.randint(0, 6, (4,)))


def network_with_reset() -> Call:
    grad = surrogate.fast_sigmoid()
    network = nn.Sequential(
        nn.Linear(6, 8), snntorch.Leaky(beta=0.9, init_hidden=True, spike_grad=grad)
    )

    def step(x: torch.Tensor) -> torch.Tensor:
        utils.reset(network)
        return network(x) + network(x)

    return call(step, _current())
