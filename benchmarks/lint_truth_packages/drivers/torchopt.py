"""Functional and differentiable optimisers."""

from __future__ import annotations

import torch
import torchopt
from torch import nn

from benchmarks.lint_truth_packages.programs import Call


def _step(optimizer: object) -> Call:
    parameters = (torch.randn(4, 3), torch.randn(3))
    state = optimizer.init(parameters)  # type: ignore[attr-defined]

    def step() -> object:
        gradients = tuple(torch.ones_like(each) for each in parameters)
        updates, new = optimizer.update(  # type: ignore[attr-defined]
            gradients, state, params=parameters, inplace=False
        )
        return torchopt.apply_updates(parameters, updates, inplace=False), new

    return Call(step, state=[parameters, state])


def adam() -> Call:
    return _step(torchopt.adam(lr=0.1))


def adamw_masked() -> Call:
    return _step(torchopt.adamw(lr=0.1, weight_decay=0.1))


def rmsprop_centered() -> Call:
    return _step(torchopt.rmsprop(lr=0.1, centered=True, momentum=0.9))


def radam() -> Call:
    return _step(torchopt.radam(lr=0.1))


def adadelta() -> Call:
    return _step(torchopt.adadelta(lr=0.1))


def adamax() -> Call:
    return _step(torchopt.adamax(lr=0.1))


def sgd_with_schedule() -> Call:
    schedule = torchopt.schedule.linear_schedule(0.1, 0.01, 10, 1)
    return _step(torchopt.sgd(lr=schedule, momentum=0.9, nesterov=True))


def clipped() -> Call:
    chain = torchopt.combine.chain(torchopt.clip_grad_norm(1.0), torchopt.sgd(lr=0.1))
    return _step(chain)


def no_nans() -> Call:
    return _step(torchopt.combine.chain(torchopt.nan_to_num(0.0), torchopt.adagrad(lr=0.1)))


def optimizer_of_a_module() -> Call:
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    optimizer = torchopt.Adam(model.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return Call(step)


def meta_step() -> Call:
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    optimizer = torchopt.MetaSGD(model, lr=0.1, momentum=0.9)

    def step() -> torch.Tensor:
        optimizer.step(model(x).pow(2).mean())
        return model(x).mean()

    return Call(step)


def conjugate_gradient() -> Call:
    matrix, right = torch.eye(4) * 2, torch.randn(4)
    solve = torchopt.linear_solve.solve_cg(maxiter=4)
    return Call(lambda: solve(lambda v: matrix @ v, right))
