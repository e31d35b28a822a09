"""Probabilistic programs: distributions, variational inference, Monte Carlo."""

from __future__ import annotations

import pyro
import torch
from pyro import distributions as dist
from pyro import infer, nn, ops, poutine

from benchmarks.lint_truth_packages.programs import Call, call


def _model(x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
    weight = pyro.sample("weight", dist.Normal(x.new_zeros(3), 1.0).to_event(1))
    with pyro.plate("data", x.shape[0]):
        return pyro.sample("y", dist.Normal(x @ weight, 0.5), obs=y)


def _guide(x: torch.Tensor, y: torch.Tensor | None = None) -> None:
    location = pyro.param("location", lambda: x.new_zeros(3))
    pyro.sample("weight", dist.Normal(location, 0.5).to_event(1))


def _data() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(8, 3)
    return x, x.sum(-1)


def evidence_lower_bound() -> Call:
    pyro.clear_param_store()
    return call(infer.Trace_ELBO().differentiable_loss, _model, _guide, *_data())


def mean_field_bound() -> Call:
    pyro.clear_param_store()
    return call(infer.TraceMeanField_ELBO().loss, _model, _guide, *_data())


def renyi_bound() -> Call:
    pyro.clear_param_store()
    return call(infer.RenyiELBO(alpha=0.5, num_particles=2).loss, _model, _guide, *_data())


def variational_step() -> Call:
    pyro.clear_param_store()
    svi = infer.SVI(_model, _guide, pyro.optim.Adam({"lr": 0.01}), loss=infer.Trace_ELBO())
    return call(svi.step, *_data())


def trace_log_density() -> Call:
    def density(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return poutine.trace(_model).get_trace(x, y).log_prob_sum()

    return call(density, *_data())


def automatic_guide() -> Call:
    pyro.clear_param_store()
    guide = infer.autoguide.AutoNormal(_model)
    guide(*_data())
    return Call(guide, _data(), state=guide)


def predictive() -> Call:
    return call(infer.Predictive(_model, num_samples=3), _data()[0])


def _mcmc(kind: type, **named: object) -> Call:
    def run(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        kernel = kind(_model, **named)
        chains = infer.MCMC(kernel, num_samples=2, warmup_steps=2, disable_progbar=True)
        chains.run(x, y)
        return chains.get_samples()

    return call(run, *_data())


def no_u_turn_sampler() -> Call:
    return _mcmc(infer.NUTS, max_tree_depth=3)


def hamiltonian_monte_carlo() -> Call:
    return _mcmc(infer.HMC, step_size=0.1, num_steps=3)


def hidden_markov_model() -> Call:
    def density(initial: torch.Tensor, transition: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        emission = dist.Normal(torch.arange(3.0).to(x), 1.0)
        return dist.DiscreteHMM(initial, transition, emission).log_prob(x)

    return call(density, torch.zeros(3), torch.zeros(3, 3), torch.randn(6))


def masked_and_zero_inflated() -> Call:
    def density(rate: torch.Tensor, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        inflated = dist.ZeroInflatedPoisson(rate, gate=torch.tensor(0.2).to(rate))
        return inflated.mask(mask).log_prob(x)

    return call(density, torch.rand(6) + 1, torch.randint(0, 4, (6,)).float(), torch.rand(6) > 0.5)


def von_mises() -> Call:
    def density(x: torch.Tensor, loc: torch.Tensor) -> torch.Tensor:
        return dist.ProjectedNormal(loc).log_prob(x)

    x = torch.nn.functional.normalize(torch.randn(6, 3), dim=-1)
    return call(density, x, torch.randn(6, 3))


def chain_diagnostics() -> Call:
    def both(samples: torch.Tensor) -> torch.Tensor:
        size = ops.stats.effective_sample_size(samples)
        return size + ops.stats.split_gelman_rubin(samples) + ops.stats.pi(samples, 0.9, dim=1)[0]

    return call(both, torch.randn(3, 20))


def bayesian_module() -> Call:
    class Layer(nn.PyroModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.PyroSample(dist.Normal(torch.zeros(3), 1.0).to_event(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.weight.to(x)

    return call(Layer(), torch.randn(4, 3))


def spline_flow() -> Call:
    transform = dist.transforms.Spline(3, count_bins=4)
    flow = dist.TransformedDistribution(dist.Normal(torch.zeros(3), 1.0), [transform])
    return Call(flow.log_prob, (torch.rand(6, 3),), state=[transform, flow])
