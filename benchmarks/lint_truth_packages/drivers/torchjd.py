"""Aggregating the gradients of several losses."""

from __future__ import annotations

import torch
from torch import nn
from torchjd import aggregation, autojac, scalarization
from torchjd.autogram import Engine

from benchmarks.lint_truth_packages.programs import Call, call


def _matrix() -> torch.Tensor:
    return torch.randn(3, 6)


def multiple_gradient_descent() -> Call:
    return call(aggregation.MGDA(max_iters=5), _matrix())


def projected_conflicts() -> Call:
    return call(aggregation.PCGrad(), _matrix())


def aligned() -> Call:
    return call(aggregation.AlignedMTL(), _matrix())


def impartial() -> Call:
    return call(aggregation.IMTLG(), _matrix())


def conflict_free() -> Call:
    return call(aggregation.ConFIG(), _matrix())


def dropped() -> Call:
    return call(aggregation.GradDrop(), _matrix())


def robust_selection() -> Call:
    return call(aggregation.Krum(n_byzantine=1, n_selected=1), torch.randn(5, 6))


def trimmed() -> Call:
    return call(aggregation.TrimmedMean(trim_number=1), torch.randn(5, 6))


def vaccine() -> Call:
    return call(aggregation.GradVac(), _matrix())


def projected_dual() -> Call:
    return call(aggregation.DualProj(), _matrix())


def unconflicting() -> Call:
    return call(aggregation.UPGrad(), _matrix())


def constant_weights() -> Call:
    return call(aggregation.Constant(torch.tensor([1.0, 2.0, 3.0])), _matrix())


def scalarized() -> Call:
    losses = torch.rand(3)
    return call(scalarization.GeometricMean(), losses)


def jacobian_backward() -> Call:
    model, x = nn.Linear(4, 2), torch.randn(3, 4)

    def step() -> torch.Tensor:
        out = model(x).mean(0)
        autojac.backward(out)
        return out

    return Call(step)


def multi_task_backward() -> Call:
    trunk, heads, x = nn.Linear(4, 4), nn.ModuleList([nn.Linear(4, 1)] * 2), torch.randn(3, 4)

    def step() -> torch.Tensor:
        features = trunk(x)
        losses = [head(features).mean() for head in heads]
        autojac.mtl_backward(losses, features=features)
        return features

    return Call(step)


def gramian() -> Call:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)), torch.randn(5, 4)
    engine = Engine(model, batch_dim=0)

    def step() -> torch.Tensor:
        return engine.compute_gramian(model(x).squeeze(1))

    return Call(step)
