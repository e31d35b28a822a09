"""Whether a case computes what it computes in default mode, bit for bit."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as distributed

import pygraph_rt
from benchmarks.distributed.cases import Case, build
from benchmarks.rows import without_paths


class Modes(NamedTuple):
    """Options of torch.compile: of the mode to compare with, and of the backend."""

    default: Mapping[str, Any]
    ours: Mapping[str, Any]


MODES = Modes({"backend": "inductor"}, {"backend": "pygraph", "options": {"graphs": "always"}})


def compare(case: Case, steps: int, device: torch.device, modes: Modes = MODES) -> dict[str, Any]:
    """Run a case in both modes; what differs, on this rank, and what was served."""
    expected = run(case, steps, device, modes.default)
    found = run(case, steps, device, modes.ours)
    regions = [r for r in pygraph_rt.report().regions if r["state"] != "released"]
    return {
        "case": case.name,
        "rank": distributed.get_rank(),
        "ranks": distributed.get_world_size(),
        "steps": steps,
        "first_difference": first_difference(expected, found),
        "results": sum(len(step) for step in found),
        "regions": len(regions),
        "served": sum(region["served"] for region in regions),
        "unserved": sum(region["unserved"] for region in regions),
        "refused": sorted({without_paths(r["reason"]) for r in regions if r["state"] == "refused"}),
    }


def run(
    case: Case, steps: int, device: torch.device, compile_options: Mapping[str, Any]
) -> list[list[torch.Tensor]]:
    """What each step returned, and at the end the state."""
    torch._dynamo.reset()
    gc.collect()
    program = build(case, lambda module: torch.compile(module, **compile_options), device)
    found = [[program.step(number).cpu()] for number in range(steps)]
    return [*found, [value.cpu() for value in program.state()]]


def first_difference(
    expected: Sequence[Sequence[torch.Tensor]], found: Sequence[Sequence[torch.Tensor]]
) -> str | None:
    """Where two runs differ first; None: nowhere."""
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        where = f"step {number}" if number < len(expected) - 1 else "the state"
        if len(one) != len(other):
            return f"{where}: {len(one)} results and {len(other)}"
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            if a.dtype != b.dtype or a.shape != b.shape or not _same(a, b):
                return f"{where}, result {place}: {float((a - b).abs().max())} apart"
    return None


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(((a == b) | ((a != a) & (b != b))).all())
