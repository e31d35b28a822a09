"""Solvers of stochastic differential equations, and Brownian motion."""

from __future__ import annotations

import torch
import torchsde
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


class _Sde(nn.Module):
    def __init__(self, noise_type: str = "diagonal", sde_type: str = "ito") -> None:
        super().__init__()
        self.noise_type, self.sde_type = noise_type, sde_type
        self.drift, self.spread = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.drift(y))

    def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        spread = torch.sigmoid(self.spread(y))
        return spread if self.noise_type == "diagonal" else spread.unsqueeze(-1)

    def h(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return -y


def _start() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(4, 3), torch.linspace(0.0, 0.4, 3)


def euler() -> Call:
    return call(torchsde.sdeint, _Sde(), *_start(), method="euler", dt=0.1)


def milstein_adaptive() -> Call:
    named = {"method": "milstein", "dt": 0.1, "adaptive": True, "rtol": 1e-2, "atol": 1e-2}
    return call(torchsde.sdeint, _Sde(), *_start(), **named)


def srk_log_ratio() -> Call:
    return call(torchsde.sdeint, _Sde(), *_start(), method="srk", dt=0.1, logqp=True)


def midpoint_general_noise() -> Call:
    sde = _Sde("general", "stratonovich")
    return call(torchsde.sdeint, sde, *_start(), method="midpoint", dt=0.1)


def reversible_heun() -> Call:
    sde = _Sde("diagonal", "stratonovich")
    return call(torchsde.sdeint, sde, *_start(), method="reversible_heun", dt=0.1)


def scalar_noise_heun() -> Call:
    sde = _Sde("scalar", "stratonovich")
    return call(torchsde.sdeint, sde, *_start(), method="heun", dt=0.1)


def adjoint() -> Call:
    return call(torchsde.sdeint_adjoint, _Sde(), *_start(), method="euler", dt=0.1)


def adjoint_backward() -> Call:
    sde, (start, times) = _Sde("diagonal", "stratonovich"), _start()

    def step() -> torch.Tensor:
        out = torchsde.sdeint_adjoint(sde, start, times, method="midpoint", dt=0.2)
        out.sum().backward()
        return out

    return Call(step)


def brownian_interval() -> Call:
    def increments(like: torch.Tensor) -> torch.Tensor:
        motion = torchsde.BrownianInterval(
            t0=0.0, t1=1.0, size=like.shape, dtype=like.dtype, device=like.device, entropy=3
        )
        return motion(0.1, 0.4) + motion(0.4, 0.9)

    return call(increments, torch.zeros(4, 3))


def brownian_interval_levy_area() -> Call:
    def increments(like: torch.Tensor) -> tuple[torch.Tensor, ...]:
        motion = torchsde.brownian_interval_like(
            like, levy_area_approximation="space-time", entropy=3
        )
        return motion(0.1, 0.4, return_U=True)

    return call(increments, torch.zeros(4, 3))


def brownian_path() -> Call:
    def value(start: torch.Tensor) -> torch.Tensor:
        return torchsde.BrownianPath(t0=0.0, w0=start)(0.3)

    return call(value, torch.zeros(4, 3))


def brownian_tree() -> Call:
    def value(start: torch.Tensor) -> torch.Tensor:
        tree = torchsde.BrownianTree(t0=0.0, w0=start, t1=1.0, entropy=3, tol=1e-2)
        return torchsde.ReverseBrownian(tree)(-0.5, -0.2)

    return call(value, torch.zeros(4, 3))
