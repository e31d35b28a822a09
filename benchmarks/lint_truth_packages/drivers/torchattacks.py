"""Adversarial attacks on image classifiers."""

from __future__ import annotations

from typing import Any

import torch
import torchattacks
from torch import nn

from benchmarks.lint_truth_packages.programs import Call


def _attack(kind: str, **named: Any) -> Call:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(196, 10))
    model.eval()
    attack = getattr(torchattacks, kind)(model, **named)
    images, labels = torch.rand(4, 3, 16, 16), torch.randint(0, 10, (4,))
    return Call(attack, (images, labels), state=model)


def fgsm() -> Call:
    return _attack("FGSM")


def pgd() -> Call:
    return _attack("PGD", steps=2)


def pgd_l2() -> Call:
    return _attack("PGDL2", steps=2)


def momentum() -> Call:
    return _attack("MIFGSM", steps=2)


def diverse_inputs() -> Call:
    return _attack("DIFGSM", steps=2)


def translation_invariant() -> Call:
    return _attack("TIFGSM", steps=2, len_kernel=5)


def carlini_wagner() -> Call:
    return _attack("CW", steps=3)


def deep_fool() -> Call:
    return _attack("DeepFool", steps=2)


def saliency_map() -> Call:
    return _attack("JSMA", gamma=0.01)


def auto_pgd() -> Call:
    return _attack("APGD", steps=4)


def square() -> Call:
    return _attack("Square", n_queries=5)


def one_pixel() -> Call:
    return _attack("OnePixel", steps=1, popsize=4, inf_batch=16)


def pixle() -> Call:
    return _attack("Pixle", restarts=1, max_iterations=2, x_dimensions=(2, 4), y_dimensions=(2, 4))


def spsa() -> Call:
    return _attack("SPSA", nb_sample=4)


def jitter() -> Call:
    return _attack("Jitter", steps=2)
