"""One framework in a process of its own: prints one JSON object as its last line.

The loop is run as a whole, in each mode in turn and then in the opposite order, from the same seed;
what is timed are its steps after the first ones. The first run of each mode shows what compiling
costs.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import signal
import statistics
import time
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.frameworks.base import MODES, Framework, How, Meter, Setup, load
from benchmarks.rows import add_row_options, known_regions, without_paths
from benchmarks.runtime.measure import Turn, end_with_the_parent

_ROUNDS = 5
# A round that starts later is the last one.
_LATE_S = 240
_BEGAN = time.perf_counter()
# The first run of a mode, with all that it compiles and captures.
_FIRST_S = 100


def run(framework: Framework, mode: str, meter: Meter, setup: Setup) -> float:
    """The loop, from the seed; seconds."""
    gc.collect()
    torch.manual_seed(0)
    started = time.perf_counter()
    framework.loop(How(mode), meter, setup)
    return time.perf_counter() - started


def lengths(framework: Framework, setup: Setup) -> tuple[int, int]:
    """Steps before the timed ones, and those."""
    return (3, 4) if setup.tiny else (framework.warm, framework.steps)


def furthest(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference of the first values, relative to eager's largest."""
    scale = max((float(v.abs().max()) for v in expected if v.numel()), default=0.0)
    gaps = [
        float((a - b).abs().max())
        if a.shape == b.shape and a.numel()
        else float(a.shape != b.shape)
        for a, b in zip(found, expected, strict=False)
    ]
    return max(gaps, default=0.0) / max(scale, 1e-12)


def failed(error: Exception) -> dict[str, Any]:
    """What is to be said of a mode whose loop raised."""
    lines = str(error).strip().splitlines() or [""]
    told = f"{type(error).__name__}: {without_paths(lines[0])}"
    return {"error": told[:300], "right": False}


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in what takes longer, once it is back in Python."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)  # again: what raises in a callback is lost
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def first_run(framework: Framework, mode: str, setup: Setup) -> tuple[dict[str, Any], list[Any]]:
    """Compile in one mode; what is to be said of it, and the first values."""
    row: dict[str, Any] = {}
    meter = Meter(*lengths(framework, setup))
    try:
        with limited(_FIRST_S):
            row["first_run_s"] = round(run(framework, mode, meter, setup), 2)
    except Exception as error:  # whatever it is, it is what the user gets
        return failed(error), []
    return row, meter.values


def first_runs(framework: Framework, setup: Setup) -> dict[str, dict[str, Any]]:
    """All modes, in turn. Right is what gives eager's values or those of default mode: a bf16 loop
    whose compiled code rounds in another way soon has other values than eager.
    """
    eager = Meter(2, 4, planned=sum(lengths(framework, setup)))
    run(framework, "eager", eager, setup)
    rows: dict[str, dict[str, Any]] = {}
    default: list[torch.Tensor] = []
    for mode in MODES:
        rows[mode], values = first_run(framework, mode, setup)
        if "error" in rows[mode]:
            continue
        default = values if mode == "default" else default
        gaps = {"eager": furthest(values, eager.values)}
        if default:
            gaps["default"] = furthest(values, default)
        rows[mode]["furthest"] = {name: round(gap, 6) for name, gap in gaps.items()}
        rows[mode]["right"] = min(gaps.values()) <= framework.tolerance
    return rows


def timed(framework: Framework, rows: dict[str, dict[str, Any]], setup: Setup, own: Turn) -> None:
    """Run the loop of the modes that work in turn; at the end pygraph's under the profiler."""
    modes = [mode for mode, row in rows.items() if "error" not in row]
    samples: dict[str, list[float]] = {mode: [] for mode in modes}
    warm, steps = lengths(framework, setup)
    rounds = 1 if setup.tiny else _ROUNDS
    for number in range(rounds):
        last = number == _ROUNDS - 1 or time.perf_counter() - _BEGAN > _LATE_S
        for mode in modes if number % 2 else modes[::-1]:
            profiled = last and mode == "pygraph"
            meter = Meter(warm, steps, profile=profiled, alone=own.alone())
            if mode not in samples:
                continue
            try:
                run(framework, mode, meter, setup)
            except Exception as error:  # in a process that has run the other modes, too
                rows[mode].update(failed(error))
                del samples[mode]
                continue
            samples[mode].append(meter.ms)
            if profiled and meter.kernels:
                rows[mode]["served_share"] = round(min(1.0, meter.in_graphs / meter.kernels), 3)
        if last:
            break
    for mode, found in samples.items():
        rows[mode]["step_ms"] = round(statistics.median(found), 4)
        rows[mode]["all_ms"] = [round(value, 4) for value in found]


def judge(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Speed beside the other modes; above 1 is faster."""
    ours = rows.get("pygraph", {}).get("step_ms")
    return {
        f"beside {mode}": round(row["step_ms"] / ours, 3)
        for mode, row in rows.items()
        if ours and mode != "pygraph" and "step_ms" in row
    }


def one(name: str, setup: Setup, lock: str) -> dict[str, Any]:
    """All modes of one framework."""
    warnings.simplefilter("ignore")
    framework = load(name)
    torch._dynamo.config.recompile_limit = 64
    torch.set_float32_matmul_precision("high")
    own = Turn(lock)
    with own.beside_others():
        rows = first_runs(framework, setup)
        timed(framework, rows, setup, own)
    kept = ("name", "state", "reason", "served", "unserved", "graphs", "nodes")
    return {"modes": rows, "speed": judge(rows), "regions": known_regions(kept, 12)}


def main() -> None:
    """Measure one framework and print it."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    add_row_options(parser)
    given = parser.parse_args()
    print(json.dumps(one(given.name, Setup(given.device, given.tiny), given.lock)))


if __name__ == "__main__":
    main()
