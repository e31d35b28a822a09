"""Everything that is observed about one program, as plain data."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.lint_truth import dynamo_breaks, ghost
from benchmarks.lint_truth.executed import Executed, Lines, executed
from benchmarks.lint_truth.worker import event_rows, observation_row, run_stages, seed_all
from benchmarks.lint_truth_packages.programs import Call, Program

CALLS = 2
MODE = "run"


def built(program: Program) -> Call:
    """The program's call with fresh inputs; grad mode is set to what it asks for."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    seed_all()
    call = program.build()
    torch.set_grad_enabled(call.grad)
    seed_all()
    return call


def _rows(lines: Lines) -> dict[str, list[int]]:
    return {name: sorted(numbers) for name, numbers in lines.items()}


def _executed(program: Program) -> Executed:
    call = built(program)
    return executed(lambda: [call.run() for _ in range(CALLS)])


def _lines(program: Program) -> dict[str, Any]:
    seen = _executed(program)
    return {"lines": _rows(seen.lines), "in_modules": _rows(seen.in_modules)}


def _ghost(program: Program) -> list[dict[str, Any]]:
    call = built(program)
    return event_rows(ghost.observe(lambda: [call.run() for _ in range(CALLS)], call.on_device()))


def _ghost_compiling(program: Program) -> dict[str, Any]:
    with ghost.as_if_compiling():
        return {"events": _ghost(program), **_lines(program)}


def _trace(program: Program) -> dict[str, Any]:
    call = built(program)
    calls = [dict(call.named)] * CALLS
    return observation_row(dynamo_breaks.observe_each(call.function, calls, *call.inputs))


STAGES: dict[str, Callable[[Program], Any]] = {
    "lines": _lines,
    "ghost": _ghost,
    "ghost_compiling": _ghost_compiling,
    "trace": _trace,
}


def observe_stage(program: Program, stage: str, report: Callable[[dict[str, Any]], None]) -> None:
    """Run one stage of `program` and `report` its record.

    Each stage has a process of its own: what a package caches in one would hide events of the next.
    """
    named = {"model": program.label, "mode": MODE}
    run_stages({stage: functools.partial(STAGES[stage], program)}, named, report)
