"""Probability paths, schedulers, solvers and losses of flow matching."""

from __future__ import annotations

import torch
from flow_matching import loss, path, solver
from flow_matching.path import scheduler
from flow_matching.utils import ModelWrapper, categorical, manifolds
from torch import nn

from benchmarks.lint_truth_packages.programs import Call, call


class _Velocity(ModelWrapper):
    def __init__(self) -> None:
        super().__init__(nn.Linear(3, 3))

    def forward(self, x: torch.Tensor, t: torch.Tensor, **extras: object) -> torch.Tensor:
        return self.model(x) * (1.0 - t.reshape(-1, *[1] * (x.dim() - 1)))


class _Logits(ModelWrapper):
    def __init__(self, size: int = 6) -> None:
        super().__init__(nn.Embedding(size, size))

    def forward(self, x: torch.Tensor, t: torch.Tensor, **extras: object) -> torch.Tensor:
        return torch.softmax(self.model(x), dim=-1)


def affine_path() -> Call:
    line = path.AffineProbPath(scheduler.CosineScheduler())

    def sample(x0: torch.Tensor, x1: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        found = line.sample(x_0=x0, x_1=x1, t=t)
        return line.target_to_velocity(x_1=found.x_1, x_t=found.x_t, t=0.5 * t[:, None])

    return call(sample, torch.randn(4, 3), torch.randn(4, 3), torch.rand(4))


def optimal_transport_path() -> Call:
    line = path.CondOTProbPath()

    def sample(x0: torch.Tensor, x1: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return line.sample(x_0=x0, x_1=x1, t=t).dx_t

    return call(sample, torch.randn(4, 3), torch.randn(4, 3), torch.rand(4))


def discrete_path_and_loss() -> Call:
    line = path.MixtureDiscreteProbPath(scheduler.PolynomialConvexScheduler(n=2.0))
    criterion = loss.MixturePathGeneralizedKL(path=line)

    def step(x0: torch.Tensor, x1: torch.Tensor, logits: torch.Tensor, t: torch.Tensor) -> object:
        found = line.sample(x_0=x0, x_1=x1, t=t)
        return criterion(logits, x_1=found.x_1, x_t=found.x_t, t=found.t)

    ids = torch.randint(0, 6, (2, 4, 5))
    return call(step, ids[0], ids[1], torch.randn(4, 5, 6), 0.9 * torch.rand(4))


def geodesic_path_on_sphere() -> Call:
    manifold = manifolds.Sphere()
    line = path.GeodesicProbPath(scheduler.CondOTScheduler(), manifold)

    def sample(x0: torch.Tensor, x1: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x0, x1 = manifold.projx(x0), manifold.projx(x1)
        return line.sample(x_0=x0, x_1=x1, t=t).x_t

    return call(sample, torch.randn(4, 3), torch.randn(4, 3), torch.rand(4))


def ode_euler() -> Call:
    solve = solver.ODESolver(velocity_model=_Velocity())
    times = torch.linspace(0.0, 1.0, 4)
    return Call(
        solve.sample, (torch.randn(4, 3), 0.25), {"method": "euler", "time_grid": times}, grad=False
    )


def ode_midpoint_intermediates() -> Call:
    solve = solver.ODESolver(velocity_model=_Velocity())
    named = {
        "method": "midpoint",
        "time_grid": torch.linspace(0.0, 1.0, 4),
        "return_intermediates": True,
    }
    return Call(solve.sample, (torch.randn(4, 3), 0.25), named, grad=False)


def ode_dopri5() -> Call:
    solve = solver.ODESolver(velocity_model=_Velocity())
    named = {"step_size": None, "method": "dopri5", "atol": 1e-3, "rtol": 1e-3}
    return Call(solve.sample, (torch.randn(4, 3),), named, grad=False)


def ode_likelihood() -> Call:
    solve = solver.ODESolver(velocity_model=_Velocity())

    def density(x: torch.Tensor) -> torch.Tensor:
        return -(x**2).sum(-1)

    named = {"log_p0": density, "step_size": 0.5, "exact_divergence": False, "method": "euler"}
    return call(solve.compute_likelihood, torch.randn(4, 3), **named)


def discrete_euler() -> Call:
    line = path.MixtureDiscreteProbPath(scheduler.PolynomialConvexScheduler(n=1.0))
    solve = solver.MixtureDiscreteEulerSolver(_Logits(), line, vocabulary_size=6)
    ids = torch.randint(0, 6, (4, 5))
    return Call(solve.sample, (ids,), {"step_size": 0.25}, grad=False)


def riemannian_solver() -> Call:
    solve = solver.RiemannianODESolver(manifold=manifolds.Sphere(), velocity_model=_Velocity())
    start = manifolds.Sphere().projx(torch.randn(4, 3))
    return Call(solve.sample, (start, 0.5), {"method": "rk4"}, grad=False)


def torus() -> Call:
    torus = manifolds.FlatTorus()

    def move(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torus.expmap(x, torus.logmap(x, y))

    return call(move, torch.randn(4, 3), torch.randn(4, 3))


def scheduler_conversion() -> Call:
    model = scheduler.ScheduleTransformedModel(
        velocity_model=_Velocity(),
        original_scheduler=scheduler.CondOTScheduler(),
        new_scheduler=scheduler.VPScheduler(),
    )
    return call(model, torch.randn(4, 3), torch.tensor(0.4))


def categorical_sampling() -> Call:
    return call(categorical, torch.softmax(torch.randn(4, 5, 6), dim=-1))
