"""Optimisers and losses."""

from __future__ import annotations

from typing import Any

import pytorch_optimizer
import torch

from benchmarks.lint_truth_packages.programs import Call, call


def _parameters() -> list[torch.nn.Parameter]:
    parameters = [torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(5))]
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    return parameters


def _step(kind: str, **named: Any) -> Call:
    parameters = _parameters()
    optimizer = getattr(pytorch_optimizer, kind)(parameters, **named)
    return Call(optimizer.step, state=parameters)


def lion() -> Call:
    return _step("Lion", weight_decay=0.1)


def adan() -> Call:
    return _step("Adan", max_grad_norm=1.0)


def ada_belief() -> Call:
    return _step("AdaBelief", rectify=True)


def lamb() -> Call:
    return _step("Lamb", pre_norm=True)


def ada_factor() -> Call:
    return _step("AdaFactor", lr=None, relative_step=True, scale_parameter=True)


def prodigy() -> Call:
    return _step("Prodigy", safeguard_warmup=True)


def d_adapt_adam() -> Call:
    return _step("DAdaptAdam")


def shampoo() -> Call:
    return _step("Shampoo", preconditioning_compute_steps=1)


def soap() -> Call:
    return _step("SOAP", precondition_frequency=2)


def ranger_21() -> Call:
    return _step("Ranger21", num_iterations=10)


def mars() -> Call:
    return _step("MARS")


def ali_g() -> Call:
    parameters = _parameters()
    optimizer = pytorch_optimizer.AliG(parameters, max_lr=0.1)
    return Call(lambda: optimizer.step(lambda: sum((p**2).sum() for p in parameters)))


def lookahead() -> Call:
    parameters = _parameters()
    optimizer = pytorch_optimizer.Lookahead(torch.optim.SGD(parameters, lr=0.1), k=1)
    return Call(optimizer.step, state=[parameters, dict(optimizer.state)])


def losses() -> Call:
    focal = pytorch_optimizer.FocalLoss()
    tempered = pytorch_optimizer.BiTemperedLogisticLoss(t1=0.8, t2=1.2, label_smooth=0.1)

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return focal(x, y) + tempered(x, y)

    return call(both, torch.randn(6, 4), torch.eye(4)[torch.arange(6) % 4])


def lovasz_and_dice() -> Call:
    lovasz = pytorch_optimizer.LovaszHingeLoss(per_image=True)
    dice = pytorch_optimizer.DiceLoss("binary")

    def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return lovasz(x, y) + dice(x.unsqueeze(1), y.unsqueeze(1))

    return call(both, torch.randn(2, 8, 8), torch.randint(0, 2, (2, 8, 8)))
