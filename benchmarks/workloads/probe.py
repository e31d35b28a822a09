"""Warm-up time and memory of one variant, alone in its process."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.workloads import decisions, observe, running, variants
from benchmarks.workloads.base import Workload
from benchmarks.workloads.variants import Variant

Note = Callable[[str], None]
SETTLING_BLOCK = 64
SETTLING_CALLS = 1280
SETTLING_S = 45.0
STEADY_CALLS = 64
STEADY_S = 2.0


def measure(
    workload: Workload, variant: Variant, device: torch.device, tiny: bool, note: Note
) -> dict[str, Any]:
    """Times in seconds, memory in bytes. ``note`` is told what is about to happen, so that a crash
    can be placed.

    Warm-up is everything from the first call to steady state, compilation included, less what that
    many calls take in steady state, right after it. Peak memory in
    steady state is taken after cached blocks were given back, so what was needed only once is not
    in it.
    """
    note("building")
    started = time.perf_counter()
    live = running.build(workload, variant, device, tiny)
    running.synchronize(device)
    built = time.perf_counter()
    batches = running.draw_batches(live, running.pool_size(live, 6), seed=1)
    weights = _allocated(device)
    with observe.recording() as record:
        note("warming up")
        calls = warm_up(live, batches, note)
        note("settling")
        more, settling_s = settle(live, batches)
        steady_s = steady_call(live, batches)
        result: dict[str, Any] = {
            "build_s": built - started,
            "first_call_s": calls[0],
            "warm_up_s": sum(calls) + settling_s - (len(calls) + more) * steady_s,
            "warm_up_calls": len(calls) + more,
            "steady_call_s": steady_s,
            "compiler": record.summary(),
            "decided": dict(Counter(region["state"] for region in decisions.regions())),
        }
    result["memory"] = {"before_calls": weights, "warm_up": _peaks(device)}
    note("measuring memory")
    result["memory"]["steady"] = _steady_peaks(live, batches, device)
    return result


def warm_up(live: running.Running, batches: list[Any], note: Note) -> list[float]:
    """Calls until steady state; seconds of each call, synchronised."""
    shapes = live.workload.distinct_shapes
    seconds = []
    live.reset()
    for index in range(live.variant.warm_calls * shapes):
        if index and index % live.case.calls_per_reset == 0:
            live.reset()
        start = time.perf_counter()
        live.call(batches[index % len(batches)])
        running.synchronize(live.device)
        seconds.append(time.perf_counter() - start)
        if index == 0:
            note("warming up after the first call")
    return seconds


def settle(live: running.Running, batches: list[Any]) -> tuple[int, float]:
    """Calls without a wait in between until the variant has decided all it decides while running,
    within bounds; how many there were, and the seconds they took.
    """
    if live.variant.settled is None:
        return 0, 0.0
    settled = variants.named_object(live.variant.settled)
    calls, started = 0, time.perf_counter()
    while calls < SETTLING_CALLS and time.perf_counter() - started < SETTLING_S:
        if settled():
            break
        live.reset()
        for index in range(min(SETTLING_BLOCK, live.case.calls_per_reset)):
            live.call(batches[index % len(batches)])
            calls += 1
        running.synchronize(live.device)
    return calls, time.perf_counter() - started


def steady_call(live: running.Running, batches: list[Any]) -> float:
    """Seconds a call, of some without a wait in between."""
    live.reset()
    running.synchronize(live.device)
    calls, started = 0, time.perf_counter()
    while calls < min(STEADY_CALLS, live.case.calls_per_reset):
        live.call(batches[calls % len(batches)])
        calls += 1
        if time.perf_counter() - started > STEADY_S:
            break
    running.synchronize(live.device)
    return (time.perf_counter() - started) / calls


def _steady_peaks(live: running.Running, batches: list[Any], device: torch.device) -> Any:
    """Peaks over one call for each batch, or None on the CPU."""
    if device.type != "cuda":
        return None
    live.reset()
    running.free_memory(device)
    torch.cuda.reset_peak_memory_stats()
    for batch in batches:
        live.call(batch)
    torch.cuda.synchronize()
    return _peaks(device)


def _peaks(device: torch.device) -> dict[str, int] | None:
    if device.type != "cuda":
        return None
    return {
        "reserved": torch.cuda.max_memory_reserved(),
        "allocated": torch.cuda.max_memory_allocated(),
    }


def _allocated(device: torch.device) -> int | None:
    return torch.cuda.memory_allocated() if device.type == "cuda" else None
