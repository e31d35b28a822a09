"""How long steps take in each mode, what a long run keeps, where the host's time goes."""

from __future__ import annotations

import contextlib
import cProfile
import gc
import pstats
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed

import pygraph_rt
from benchmarks.distributed.cases import Case, Program, build

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "pygraph": {"backend": "pygraph"},
}
_BLOCK = 10
# Steps that compile everything.
_FIRST = 3
_MOST_SECONDS = 60.0


def synchronize() -> None:
    """Wait for this rank's GPUs."""
    for device in range(torch.cuda.device_count() if torch.cuda.is_initialized() else 0):
        torch.cuda.synchronize(device)


def together() -> None:
    """Wait for all ranks."""
    synchronize()
    distributed.barrier()


def agree(value: float) -> float:
    """The largest value of all ranks."""
    found = [0.0] * distributed.get_world_size()
    distributed.all_gather_object(found, value)
    return max(found)


def timed(program: Program, first: int, steps: int) -> float:
    """Milliseconds a step, the GPU waited for at the end."""
    together()
    started = time.perf_counter()
    for number in range(first, first + steps):
        program.step(number)
    synchronize()
    return (time.perf_counter() - started) * 1e3 / steps


def warm_up(program: Program, steps: int, decides: bool = True) -> int:
    """Run until no region is undecided, on all ranks; how many steps that took. A mode that
    `decides` nothing runs twice as many steps as are given. Ranks measure once in 64 calls, which
    are 64 steps where a region is called once a step.
    """
    ended = time.perf_counter() + _MOST_SECONDS
    for number in range((80 if decides else 2) * steps):
        program.step(number)
        if decides and number % steps == steps - 1:
            open_states = {"observing", "capturing", "verifying", "deciding"}
            waits = any(r["state"] in open_states for r in pygraph_rt.report().regions)
            if not agree(float(waits and time.perf_counter() < ended)):
                break
    return number + 1


def idle_share(program: Program, steps: int = 3) -> float | None:
    """The part of a step in which this rank's GPU does nothing; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    from torch.profiler import ProfilerActivity, profile

    for _ in range(2):  # the profiler's first use takes a while of its own
        together()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            started = time.perf_counter()
            for number in range(steps):
                program.step(number)
            synchronize()
            passed = (time.perf_counter() - started) * 1e6
    spans = sorted(
        (event.time_range.start, event.time_range.end)
        for event in record.events()
        if str(event.device_type).endswith("CUDA") and not event.is_user_annotation
    )
    busy = reached = 0.0
    for start, end in spans:
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return round(1 - busy / passed, 4)


def speed(
    case: Case, steps: int, device: torch.device, modes: Sequence[str]
) -> tuple[dict[str, Any], Program | None]:
    """Some of MODES interleaved in blocks of steps; default mode's program. memory_mib: the most
    that a mode has allocated, on any rank, from its fourth step until its graphs are chosen.
    """
    programs: dict[str, Program] = {}
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}
    resting: dict[str, float] = {}
    for mode in modes:
        options = MODES[mode]
        with left_out(mode, programs, errors):
            torch._dynamo.reset() if not programs else None
            before = allocated()
            programs[mode] = build(case, lambda m, o=options: torch.compile(m, **o), device)
            after = []
            for number in range(_FIRST):
                programs[mode].step(number)
                after.append(in_use() - before)
            # Beside other modes DDP keeps its old buckets until another one's next step.
            resting[mode] = min(after)
            found[mode] = {}
    for mode in list(programs):
        with left_out(mode, programs, errors):
            before = allocated() - resting[mode]
            found[mode]["warm_up_steps"] = warm_up(programs[mode], 10, mode == "pygraph")
            found[mode]["memory_mib"] = mib(peak() - before)
    timed_in_turn(programs, steps, found)
    reads = next(iter(programs.values())).reads if programs else 0
    limit = reads / bandwidth(device) * 1e3 if reads else None
    tokens = 1 if case.spread == "decode" else case.batch * case.shape.length
    result = {
        "modes": found,
        "errors": errors,
        "limit_ms": limit,
        "idle_share": None,
        "tokens_a_step_and_rank": tokens,
        "regions": states(),
    }
    return result, programs.get("default")


@contextlib.contextmanager
def left_out(mode: str, programs: dict[str, Program], errors: dict[str, str]) -> Iterator[None]:
    """Leave out, on all ranks, a mode that fails on one."""
    try:
        yield
    except Exception as error:
        errors[mode] = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
    if agree(float(mode in errors)):
        programs.pop(mode, None)


def timed_in_turn(programs: Mapping[str, Program], steps: int, found: dict[str, Any]) -> None:
    """Add to `found` the median of milliseconds a step, over blocks of steps."""
    blocks: dict[str, list[float]] = {mode: [] for mode in programs}
    for _ in range(max(2, steps // _BLOCK)):
        for mode, program in programs.items():
            blocks[mode].append(agree(timed(program, 1000, _BLOCK)))
    for mode, values in blocks.items():
        found[mode] |= {
            "ms": round(statistics.median(values), 4),
            "blocks": [round(v, 4) for v in values],
        }


def bandwidth(device: torch.device) -> float:
    """Bytes a second that this rank's memory gives: read and written by copies of a large block."""
    block = torch.empty(
        1 << (30 if device.type == "cuda" else 24), dtype=torch.uint8, device=device
    )
    other = torch.empty_like(block)
    seconds = []
    for _ in range(5):
        synchronize()
        started = time.perf_counter()
        other.copy_(block)
        synchronize()
        seconds.append(time.perf_counter() - started)
    return 2 * block.numel() / min(seconds)


def states() -> dict[str, int]:
    """How many regions are in each state."""
    found: dict[str, int] = {}
    for region in pygraph_rt.report().regions:
        found[region["state"]] = found.get(region["state"], 0) + 1
    return found


def in_use() -> float:
    """Bytes of memory that tensors of this process take on all its GPUs."""
    return float(sum(torch.cuda.memory_allocated(n) for n in range(torch.cuda.device_count())))


def allocated() -> float:
    """Bytes of GPU memory in use; the peak begins anew."""
    gc.collect()
    for number in range(torch.cuda.device_count()):
        torch.cuda.reset_peak_memory_stats(number)
    return in_use()


def mib(nbytes: float) -> float:
    """The most of all ranks, in MiB."""
    return round(agree(nbytes / 2**20), 1)


def peak() -> float:
    """The most bytes of GPU memory in use since `allocated`."""
    return float(sum(torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count())))


def held() -> dict[str, int]:
    """What a process holds: host memory, GPU memory, open files, graphs."""
    process = Path("/proc/self")
    lines = (process / "status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    regions = pygraph_rt.report().regions
    return {
        "host_kib": int(status["VmRSS"].split()[0]),
        "gpu_bytes": torch.cuda.memory_allocated() if torch.cuda.is_available() else 0,
        "reserved_bytes": torch.cuda.memory_reserved() if torch.cuda.is_available() else 0,
        "files": len(list((process / "fd").iterdir())),
        "threads": int(status["Threads"]),
        "graphs": sum(region["graphs"] for region in regions),
        "graph_bytes": sum(region["graph_bytes"] for region in regions),
    }


def soak(case: Case, steps: int, device: torch.device) -> dict[str, Any]:
    """What is held after a quarter of the steps, and at the end."""
    program = build(case, lambda m: torch.compile(m, **MODES["pygraph"]), device)
    snapshots = []
    for number in range(steps):
        program.step(number)
        if number % max(1, steps // 8) == 0 or number == steps - 1:
            together()
            gc.collect()
            snapshots.append({"step": number, **held()})
    quarter = next(s for s in snapshots if s["step"] >= steps // 4)
    grown = {k: snapshots[-1][k] - quarter[k] for k in quarter if k != "step"}
    return {"snapshots": snapshots, "grown": grown, "regions": states()}


def freed(case: Case, steps: int, device: torch.device) -> dict[str, Any]:
    """Filler blocks are freed, and torch's cache emptied, every 50 steps: captures after step 20,
    and milliseconds a step without and with that.
    """
    found: dict[str, Any] = {}
    for mode, options in MODES.items():
        torch._dynamo.reset()
        program = build(case, lambda m, o=options: torch.compile(m, **o), device)
        warm_up(program, 10)
        before, plain = captures(), agree(timed(program, 0, steps))
        together()
        started = time.perf_counter()
        for number in range(steps):
            if number % 50 == 0:
                fill_and_free(device)
            program.step(number)
        synchronize()
        ms = agree((time.perf_counter() - started) * 1e3 / steps)
        found[mode] = {"ms": plain, "ms_with_frees": ms, "capture_ms_after": captures() - before}
    return {"modes": found}


def captures() -> float:
    """Milliseconds that all regions have spent capturing."""
    return float(sum(region["capture_ms"] for region in pygraph_rt.report().regions))


def fill_and_free(device: torch.device) -> None:
    """Allocate blocks of many sizes, free them, and give torch's cache back."""
    blocks = [torch.empty(1 << (12 + n % 14), device=device) for n in range(64)]
    del blocks
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


_PLACES = {
    "torch/_dynamo": "Dynamo",
    "torch/distributed/tensor": "DTensor",
    "torch/distributed": "c10d",
    "torch/_inductor": "Inductor",
    "torch/_functorch": "AOTAutograd",
    "pygraph_rt": "pygraph",
    "torchinductor_": "generated code",
}


def layers(case: Case, steps: int, device: torch.device) -> dict[str, Any]:
    """Microseconds of the host a step, by who spends them."""
    found = {}
    for mode in ("default", "pygraph"):
        torch._dynamo.reset()
        program = build(case, lambda m, o=MODES[mode]: torch.compile(m, **o), device)
        warm_up(program, 10)
        together()
        profile = cProfile.Profile()
        profile.enable()
        for number in range(steps):
            program.step(number)
        profile.disable()
        found[mode] = by_place(pstats.Stats(profile).stats, steps)  # type: ignore[attr-defined]
    return {"modes": found}


def by_place(stats: Mapping[Any, Sequence[Any]], steps: int) -> dict[str, float]:
    """Own time of functions, summed by the package that they are in; built-in functions count
    with `torch or built in`.
    """
    sums: dict[str, float] = {}
    for (file, _, _), (_, _, own, *_rest) in stats.items():
        names = (name for part, name in _PLACES.items() if part in file)
        place = next(names, "torch or built in")
        sums[place] = sums.get(place, 0.0) + own
    return {name: round(seconds / steps * 1e6, 1) for name, seconds in sums.items()}
