"""``python -m benchmarks.workloads.run``: measures the workloads and adds to a result file."""

from __future__ import annotations

import argparse
import math
import os
import sys
from pathlib import Path

import torch

from benchmarks.workloads import catalogue, overlay, report, results, schedule, timing, variants
from benchmarks.workloads.base import Workload

_RESULTS = Path(__file__).parents[1] / "results" / "workloads.json"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.workloads.run",
        description="Time, memory and warm-up of each workload under each variant.",
    )
    names = ",".join(variants.MEASURED)
    made.add_argument("--only", help="workloads, separated by commas (default: all)")
    made.add_argument("--variants", default=names, help=f"separated by commas (default: {names})")
    made.add_argument("--list", action="store_true", help="print the workloads and leave")
    made.add_argument("--out", type=Path, default=_RESULTS, help="result file to add to")
    made.add_argument("--resume", action="store_true", help="leave out what the file already has")
    made.add_argument("--repeat", action="store_true", help="time again, also what was timed")
    which = made.add_mutually_exclusive_group()
    which.add_argument("--only-timing", action="store_true", help="no memory, no warm-up times")
    which.add_argument("--only-memory", action="store_true", help="memory and warm-up times alone")
    made.add_argument("--budget-seconds", type=float, default=3600.0, help="stop after this long")
    made.add_argument("--limit-seconds", type=float, default=240.0, help="for one process")
    made.add_argument(
        "--start-after-seconds",
        type=float,
        default=math.inf,
        help="time what has compiled by then, while the rest still compiles",
    )
    made.add_argument("--at-once", type=int, default=_at_once(), help="processes side by side")
    made.add_argument("--wave", type=int, default=12, help="workloads in a wave")
    made.add_argument("--gpu-memory-gb", type=float, default=120.0, help="for waiting timings")
    made.add_argument("--gpus", type=int, default=1, help="one workload is timed on each at a time")
    made.add_argument("--rounds", type=int, default=timing.Plan.rounds, help="at least 7")
    made.add_argument("--round-seconds", type=float, default=timing.Plan.round_seconds)
    made.add_argument("--device", default="cuda", help="cuda or cpu")
    made.add_argument("--sources", type=Path, help="folder made by benchmarks.workloads.fixing")
    made.add_argument("--cache", type=Path, help="keep what timings compile in this folder")
    made.add_argument("--tiny", action="store_true", help="smoke-test size")
    return made


def _at_once() -> int:
    return max(1, (os.cpu_count() or 2) - 2)


def main(arguments: list[str] | None = None) -> int:
    """Runs; returns 0, or 2 on a bad argument or a machine that can't run it."""
    options = parser().parse_args(arguments)
    if options.list:
        for workload in catalogue.WORKLOADS:
            print(f"{workload.name:45s} {catalogue.describe(workload)}")
        return 0
    try:
        chosen = _chosen(options.only)
        names = tuple(variants.named(name).name for name in options.variants.split(","))
    except KeyError as error:
        print(error.args[0], file=sys.stderr)
        return 2
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no CUDA device: use --device cpu --tiny, or another machine", file=sys.stderr)
        return 2
    try:
        if options.sources is not None:
            overlay.load(options.sources)
        done = schedule.session(_options(options, names), chosen)
    except (results.ResultError, overlay.OverlayError) as error:
        print(error, file=sys.stderr)
        return 2
    print(report.table(done.content))
    if done.left_out:
        print(f"not run for lack of time or memory: {', '.join(done.left_out)}")
    return 0


def _chosen(only: str | None) -> list[Workload]:
    if not only:
        return list(catalogue.WORKLOADS)
    return [catalogue.named(name) for name in only.split(",")]


def _options(options: argparse.Namespace, names: tuple[str, ...]) -> schedule.Options:
    return schedule.Options(
        variants=names,
        device=options.device,
        tiny=options.tiny,
        sources=options.sources,
        cache=options.cache,
        out=options.out,
        resume=options.resume or options.repeat,
        repeat=options.repeat,
        only_timing=options.only_timing,
        only_memory=options.only_memory,
        start_after_s=options.start_after_seconds,
        budget_s=options.budget_seconds,
        limit_s=options.limit_seconds,
        at_once=options.at_once,
        wave=options.wave,
        gpu_memory=options.gpu_memory_gb * 1e9,
        gpus=options.gpus,
        rounds=options.rounds,
        round_seconds=options.round_seconds,
    )


if __name__ == "__main__":
    raise SystemExit(main())
