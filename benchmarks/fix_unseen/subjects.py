"""What is run: programs over packages of other authors, and the newest models."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).resolve().parents[1] / "results"
DEVELOP, HELD_OUT = "develop", "held-out"
MODELS = ("transformers", "timm", "diffusers")


@dataclass
class Made:
    """A function with the arguments of each of its calls: positional ones, and named ones.

    `tensors` gives every tensor that is there before the first call.
    """

    function: Callable[..., Any]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]]
    grad: bool
    tensors: Callable[[], list[torch.Tensor]]


@dataclass(frozen=True)
class Subject:
    """Something that is compiled; `make` gives a fresh one each time."""

    name: str
    group: str
    half: str
    make: Callable[[], Made]


def _program(program: Any) -> Made:
    from benchmarks.lint_truth.worker import seed_all
    from benchmarks.lint_truth_packages.worker import CALLS

    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    seed_all()
    call = program.build()
    calls = [(call.inputs, dict(call.named)) for _ in range(CALLS)]
    return Made(call.function, calls, call.grad, call.on_device)


def programs() -> Iterator[Subject]:
    """Every program that broke when the truth was measured."""
    from benchmarks.lint_truth_packages.catalogue import PACKAGES, half_of_package
    from benchmarks.lint_truth_packages.catalogue import programs as of_package

    table = json.loads((RESULTS / "lint_truth_packages_sites.json").read_text())
    broken = {name for name, row in table["programs"].items() if row.get("break_sites")}
    for package in PACKAGES:
        half = half_of_package(package)
        for program in of_package(package):
            if program.label in broken:
                make = functools.partial(_program, program)
                yield Subject(program.label, package, half, make)


def _model(entry: Any, mode: str) -> Made:
    from benchmarks.lint_truth.builders import build
    from benchmarks.lint_truth.worker import prepare_on

    model, inputs = build(entry, mode)
    prepare_on(model, "cpu")
    calls = [((), each) for each in (inputs if isinstance(inputs, list) else [inputs])]
    return Made(model, calls, mode == "train", lambda: [*model.parameters(), *model.buffers()])


def models() -> Iterator[Subject]:
    """Every model and sampler of the newest versions that broke when the truth was measured."""
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.versions import SETS

    table = json.loads(SETS["newer"].truth_file.read_text())
    for entry in catalogue(SETS["newer"]):
        row = table["models"].get(entry.name)
        for mode, found in row["modes"].items() if row else ():
            if found.get("break_sites"):
                half = HELD_OUT if row["half"] == HELD_OUT else DEVELOP
                kind = "samplers" if entry.name.startswith("sampler/") else "models"
                make = functools.partial(_model, entry, mode)
                yield Subject(f"{entry.name}:{mode}", kind, half, make)


def measured(which: str) -> list[str]:
    """The import names of a set's packages."""
    if which == "models":
        return list(MODELS)
    from benchmarks.lint_truth_packages.catalogue import PACKAGES

    return list(PACKAGES.values())


def subjects(which: str) -> list[Subject]:
    """What is run of a set, "packages" or "models", in an order in which each part of a run that
    is cut short is a sample of all.
    """
    found = models() if which == "models" else programs()
    return sorted(found, key=lambda one: hashlib.sha256(one.name.encode()).hexdigest())
