"""Optimisers without learning rate schedules."""

from __future__ import annotations

from typing import Any

import schedulefree
import torch

from benchmarks.lint_truth_packages.programs import Call


def _parameters() -> list[torch.nn.Parameter]:
    parameters = [torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(5))]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return parameters


def _step(kind: str, **named: Any) -> Call:
    parameters = _parameters()
    optimizer = getattr(schedulefree, kind)(parameters, **named)
    optimizer.train()
    return Call(optimizer.step, state=parameters)


def adamw() -> Call:
    return _step("AdamWScheduleFree", foreach=False, warmup_steps=10)


def adamw_foreach() -> Call:
    return _step("AdamWScheduleFree", foreach=True, weight_decay=0.1)


def sgd() -> Call:
    return _step("SGDScheduleFree", foreach=False, weight_decay=0.1)


def sgd_foreach() -> Call:
    return _step("SGDScheduleFree", foreach=True, warmup_steps=5)


def radam() -> Call:
    return _step("RAdamScheduleFree", foreach=False)


def radam_foreach_silent() -> Call:
    return _step("RAdamScheduleFree", foreach=True, silent_sgd_phase=True)


def adamw_reference() -> Call:
    return _step("AdamWScheduleFreeReference")


def adamw_paper() -> Call:
    return _step("AdamWScheduleFreePaper")


def sgd_reference() -> Call:
    return _step("SGDScheduleFreeReference")


def to_evaluation_and_back() -> Call:
    parameters = _parameters()
    optimizer = schedulefree.AdamWScheduleFree(parameters, foreach=False)
    optimizer.train()
    optimizer.step()

    def both() -> None:
        optimizer.eval()
        optimizer.train()

    return Call(both, state=[parameters, dict(optimizer.state)])


def wrapped_optimizer() -> Call:
    parameters = _parameters()
    base = torch.optim.SGD(parameters, lr=0.01)
    optimizer = schedulefree.ScheduleFreeWrapper(base, momentum=0.9, weight_decay_at_y=0.1)
    optimizer.train()
    return Call(optimizer.step, state=parameters)


def sgd_with_closure() -> Call:
    parameters = _parameters()
    optimizer = schedulefree.SGDScheduleFreeClosure(parameters, lr=0.1)

    def closure() -> torch.Tensor:
        loss = sum((p**2).sum() for p in parameters)
        optimizer.zero_grad()
        loss.backward()
        return loss

    return Call(lambda: optimizer.step(closure), state=parameters)
