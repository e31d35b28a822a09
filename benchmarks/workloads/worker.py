"""The child process: one probe (one variant, alone) or one timing (all variants of a workload).

Writes its result file again after each step, with the step it is about to take, so that the parent
can say where a process that died was. A timing says ``@ready`` on standard output when it is warm
and waits for a line on standard input, so that only one process uses the machine while it is timed.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch._dynamo import config as dynamo_config

from benchmarks.workloads import catalogue, decisions, environment, probe, timing, variants
from benchmarks.workloads.base import Workload

READY = "@ready"


class Report:
    """The result file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"step": "starting"}

    def note(self, step: str) -> None:
        """Says what comes next."""
        self.update(step=step)

    def update(self, **content: Any) -> None:
        """Adds to the result and writes it, in one move."""
        self.content.update(content)
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.content))
        partial.replace(self.path)


def configure(device: torch.device) -> None:
    """Settings every variant shares: TF32 allowed, room for many compiled copies of the same
    code.
    """
    warnings.filterwarnings("ignore")
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    dynamo_config.recompile_limit = 64
    dynamo_config.accumulated_recompile_limit = 1024
    if device.type == "cpu":
        torch.set_num_threads(1)


def run_probe(
    workload: Workload, variant: variants.Variant, device: torch.device, tiny: bool, report: Report
) -> None:
    """Measures one variant; an exception is part of the result."""
    try:
        result = probe.measure(workload, variant, device, tiny, report.note)
    except Exception as error:
        report.update(error=timing.described(error), failed_step=report.content["step"])
        return
    report.update(step="done", result=result)


def run_timing(
    workload: Workload,
    chosen: list[variants.Variant],
    device: torch.device,
    tiny: bool,
    plan: timing.Plan,
    report: Report,
) -> None:
    """Prepares, waits for its turn, times and profiles."""
    prepared = timing.prepare(workload, chosen, device, tiny, report.note)
    report.update(failed=prepared.failed, checked=prepared.checked)
    report.note("waiting")
    print(READY, flush=True)
    sys.stdin.readline()
    report.update(settling=timing.settle(prepared, report.note))
    before = environment.clocks(device)
    report.update(
        timed=timing.time_rounds(prepared, plan, report.note),
        clocks=[before, environment.clocks(device)],
        input_sets=len(prepared.batches),
        input_bytes=prepared.batches[0].nbytes() if prepared.batches else 0,
    )
    report.update(profiles=timing.profiles(prepared, report.note))
    report.update(regions=timing.shown(decisions.regions()))
    report.note("done")


def main() -> None:
    """Parses arguments and runs one measurement."""
    parser = argparse.ArgumentParser(prog="benchmarks.workloads.worker")
    parser.add_argument("kind", choices=("probe", "timing"))
    parser.add_argument("--workload", required=True)
    parser.add_argument("--variants", required=True, help="names, separated by commas")
    parser.add_argument("--device", required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--rounds", type=int, default=timing.Plan.rounds)
    parser.add_argument("--round-seconds", type=float, default=timing.Plan.round_seconds)
    parser.add_argument("--result", required=True, type=Path)
    options = parser.parse_args()
    device = torch.device(options.device)
    configure(device)
    workload = catalogue.named(options.workload)
    chosen = [variants.named(name) for name in options.variants.split(",")]
    report = Report(options.result)
    report.update(environment=environment.describe(device))
    if options.kind == "probe":
        run_probe(workload, chosen[0], device, options.tiny, report)
    else:
        plan = timing.Plan(options.rounds, options.round_seconds)
        if options.tiny:
            plan = dataclasses.replace(plan, most_rounds=plan.rounds)
        run_timing(workload, chosen, device, options.tiny, plan, report)
    # Interpreter shutdown with live CUDA graphs can crash after the result is complete.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
