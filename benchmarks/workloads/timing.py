"""Steady-state time of all variants of one workload, in one process, in interleaved rounds."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.workloads import accuracy, gpu_profile, host_profile, probe, running
from benchmarks.workloads.base import Batch, Workload
from benchmarks.workloads.variants import Variant

Note = Callable[[str], None]
_ROOT = Path(__file__).parents[2]


@dataclasses.dataclass(frozen=True)
class Plan:
    """How long to time: ``rounds`` of about ``round_seconds`` for each variant, ``least`` to
    ``most`` calls each. Then up to ``most_rounds`` of the variants that are within ``near`` of the
    fastest, for ``more_seconds`` at the most, while the error of a median is above ``error``.
    """

    rounds: int = 9
    round_seconds: float = 0.08
    least: int = 5
    most: int = 100
    most_rounds: int = 99
    near: float = 0.25
    error: float = 0.01
    more_seconds: float = 20.0


@dataclasses.dataclass
class Prepared:
    """Warm variants and the inputs they share, ready to be timed."""

    live: list[running.Running]
    batches: list[Batch]
    checked: dict[str, Any]
    failed: dict[str, str]


def prepare(
    workload: Workload, variants: list[Variant], device: torch.device, tiny: bool, note: Note
) -> Prepared:
    """Builds, compiles, warms and checks every variant; a variant that raises is left out with its
    error.
    """
    prepared = Prepared([], [], {}, {})
    for variant in variants:
        note(f"warming up {variant.name}")
        try:
            live = running.build(workload, variant, device, tiny)
            if not prepared.batches:
                count = running.pool_size(live, 32)
                prepared.batches = running.draw_batches(live, count, seed=2)
            probe.warm_up(live, prepared.batches, lambda _: None)
        except Exception as error:  # a variant's failure is a result
            prepared.failed[variant.name] = described(error)
            continue
        prepared.live.append(live)
    note("checking answers")
    _check(prepared, tiny)
    running.free_memory(device)
    return prepared


def _check(prepared: Prepared, tiny: bool) -> None:
    """Fills ``checked`` with each variant's errors; eager is the yardstick and has to be there.

    All get eager's weights first: with an optimizer, variants that took more calls to warm up have
    taken more steps.
    """
    eager = next((live for live in prepared.live if live.variant.name == "eager"), None)
    if eager is None:
        return
    wanted = accuracy.reference(eager, prepared.batches, tiny)
    running.free_memory(eager.device)
    yardstick = accuracy.errors(accuracy.answer(eager, prepared.batches), wanted)
    default: accuracy.Answer | None = None
    weights = eager.case.module.state_dict()
    for live in prepared.live:
        live.case.module.load_state_dict(weights)
        answer = accuracy.answer(live, prepared.batches)
        found = accuracy.errors(answer, wanted)
        apart = None if default is None else accuracy.errors(answer, default)
        right = accuracy.agrees(found, yardstick, apart, live.workload.tolerance)
        checked = {"errors": found, "from_default": apart, "agrees": right}
        prepared.checked[live.variant.name] = checked
        if live.variant.name == "default":
            default = answer


def settle(prepared: Prepared, note: Note) -> dict[str, Any]:
    """Lets variants that decide while running do so, with the machine to themselves; how many calls
    and seconds that took.
    """
    found = {}
    for live in prepared.live:
        note(f"settling {live.variant.name}")
        calls, seconds = probe.settle(live, prepared.batches)
        if calls:
            found[live.variant.name] = {"calls": calls, "seconds": seconds}
    return found


def time_rounds(prepared: Prepared, plan: Plan, note: Note) -> dict[str, Any]:
    """Milliseconds a call for each variant and round, as lists in the order of the rounds.

    ``ms`` is from the first call to the end of all device work, ``host_ms`` until the last call
    returned. The order of variants turns by one from round to round; each order comes once before
    any counts, because variants share torch's cache of device memory, which has to grow until it
    holds what each of them needs after each other. Where rounds differ, there are more of the
    fastest (see `Plan`). ``device_allocations`` and ``device_frees`` are
    those of the rounds that count: there should be none. Inputs are new on every call until the
    pool of ``input_sets`` is used up.
    """
    counts = {live.variant.name: _calls(live, prepared.batches, plan) for live in prepared.live}
    result: dict[str, Any] = {
        name: {"calls_a_round": count, "ms": [], "host_ms": [], **_no_allocations(prepared)}
        for name, count in counts.items()
    }

    def go_round(turn: int, among: list[running.Running]) -> None:
        shift = turn % max(1, len(among))
        for live in among[shift:] + among[:shift]:
            name = live.variant.name
            note(f"timing {name}")
            before = _allocations(live.device)
            total, host = _round(live, prepared.batches, counts[name])
            if turn < 0:
                continue
            result[name]["ms"].append(total)
            result[name]["host_ms"].append(host)
            for key, value in _allocations(live.device).items():
                result[name][key] += value - before[key]

    for turn in range(-len(prepared.live), plan.rounds):
        go_round(turn, prepared.live)
    near = _near(prepared, result, plan)
    end = time.perf_counter() + plan.more_seconds
    for turn in range(plan.rounds, plan.most_rounds):
        errors = [_error(result[live.variant.name]["ms"]) for live in near]
        if max(errors, default=0.0) <= plan.error or time.perf_counter() > end:
            break
        go_round(turn, near)
    return result


def _near(
    prepared: Prepared, timed: dict[str, dict[str, Any]], plan: Plan
) -> list[running.Running]:
    """The variants that are about as fast as the fastest."""
    medians = {name: statistics.median(found["ms"]) for name, found in timed.items()}
    most = min(medians.values(), default=0.0) * (1 + plan.near)
    return [live for live in prepared.live if medians[live.variant.name] <= most]


def _error(values: list[float]) -> float:
    """Standard error of the median of these, as a part of it."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    deviation = (high - low) / 1.349  # of a normal distribution
    return 1.2533 * deviation / math.sqrt(len(values)) / middle


_COUNTED = {"device_allocations": "num_device_alloc", "device_frees": "num_device_free"}


def _allocations(device: torch.device) -> dict[str, int]:
    """Memory that torch has taken from the driver and given back so far, in pieces; nothing on the
    CPU.
    """
    if device.type != "cuda":
        return {}
    known = torch.cuda.memory_stats(device)
    return {name: known.get(key, 0) for name, key in _COUNTED.items()}


def _no_allocations(prepared: Prepared) -> dict[str, int]:
    return dict.fromkeys(_allocations(prepared.live[0].device), 0)


def _round(live: running.Running, batches: list[Batch], calls: int) -> tuple[float, float]:
    """Milliseconds a call: until the device is done, and until the host is."""
    live.reset()
    for batch in batches[-2:]:
        live.call(batch)
    running.synchronize(live.device)
    start = time.perf_counter()
    for index in range(calls):
        live.call(batches[index % len(batches)])
    issued = time.perf_counter()
    running.synchronize(live.device)
    done = time.perf_counter()
    return (done - start) / calls * 1e3, (issued - start) / calls * 1e3


def _calls(live: running.Running, batches: list[Batch], plan: Plan) -> int:
    """Calls a round, a multiple of the input shapes, within what the case allows between resets."""
    shapes = live.workload.distinct_shapes
    sample, _ = _round(live, batches, plan.least * shapes)
    wanted = int(plan.round_seconds * 1e3 / sample)
    count = max(plan.least, min(plan.most, wanted, live.case.calls_per_reset - 2))
    return -(-count // shapes) * shapes


def profiles(prepared: Prepared, note: Note) -> dict[str, Any]:
    """Profiles of the variants: the GPU's work, and the host's time by layer (``host``); empty on
    the CPU.
    """
    found: dict[str, Any] = {}
    for live in prepared.live:
        if live.device.type != "cuda":
            break
        note(f"profiling {live.variant.name}")
        calls = max(3, live.workload.distinct_shapes)
        profile = gpu_profile.measure(live, prepared.batches, calls)
        profile["host"] = host_profile.measure(live, prepared.batches)
        found[live.variant.name] = profile
    return found


def described(error: Exception) -> str:
    """Type and first lines of an error, and the last line of the benchmark's or torch's code that
    raised it.
    """
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].name}, line {frames[-1].lineno}" if frames else "unknown place"
    text = without_folders(str(error).strip())[:400]
    return f"{type(error).__name__}: {text} (in {place})"


def without_folders(text: str) -> str:
    """Paths below the project and below installed packages, without the folder that holds these."""
    return re.sub(r"/\S*/site-packages/", "", text.replace(f"{_ROOT}/", ""))


def shown(value: Any) -> Any:
    """Plain data with every text :func:`without_folders`."""
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    return [shown(item) for item in value] if isinstance(value, list) else value
