"""One measurement in a process of its own: prints one JSON object as its last line.

`timing` interleaves all modes in one process; `memory` runs a single mode from a cold compile
cache, for its warm-up and its peak of reserved memory; `host` times served calls without Dynamo
in front.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

import pygraph_rt
from benchmarks.runtime.workloads import WORKLOADS, ten_inputs

Step = Callable[[list[torch.Tensor]], Any]
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Turn:
    """Among measurements that were started together: one is timed `alone`, while none compiles.
    Without a lock file there is no waiting.
    """

    def __init__(self, lock: str) -> None:
        self._file = os.open(lock, os.O_RDWR | os.O_CREAT) if lock else None

    def _take(self, alone: bool) -> None:
        if self._file is not None:
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until nobody compiles or is timed; afterwards go on beside others."""
        self._take(alone=True)
        try:
            yield
        finally:
            self._take(alone=False)

    @contextlib.contextmanager
    def beside_others(self) -> Iterator[None]:
        """Wait until nobody is timed."""
        self._take(alone=False)
        try:
            yield
        finally:
            if self._file is not None:
                os.close(self._file)


@contextlib.contextmanager
def turn(lock: str, alone: bool) -> Iterator[None]:
    """A turn of one kind: `alone`, or beside others."""
    own = Turn(lock)
    with own.beside_others():
        if not alone:
            yield
            return
        with own.alone():
            yield


def compiled(function: Callable[..., Any], mode: str) -> Step:
    """A step that takes a list of inputs, compiled in one of the modes."""
    if mode == "eager":
        run = function
    elif mode == "pygraph":
        # The cost of serving is measured here; what is chosen is benchmarks/runtime/selection.py's.
        run = torch.compile(function, backend=pygraph_rt.pygraph, options={"graphs": "always"})
    elif mode == "reduce-overhead":
        inner = torch.compile(function, mode="reduce-overhead")

        def run(*inputs: torch.Tensor) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return inner(*inputs)
    else:
        run = torch.compile(function)
    return lambda inputs: run(*inputs)


def synchronize() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def period_ms(step: Step, inputs: list[list[torch.Tensor]], calls: int) -> float:
    """Milliseconds a call over `calls` calls, each with inputs cloned just before it."""
    synchronize()
    started = time.perf_counter()
    for i in range(calls):
        step([t.clone() for t in inputs[i % len(inputs)]])
    synchronize()
    return (time.perf_counter() - started) / calls * 1e3


def gpu_busy_ms(step: Step, inputs: list[torch.Tensor]) -> float:
    """Sum of the durations of all GPU activities of one call, in milliseconds; 0 without a GPU."""
    if not torch.cuda.is_available():
        return 0.0
    from torch.profiler import ProfilerActivity, profile

    found = []
    for _ in range(3):
        fresh = [t.clone() for t in inputs]
        synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as record:
            step(fresh)
            synchronize()
        found.append(
            sum(e.device_time for e in record.events() if str(e.device_type).endswith("CUDA"))
        )
    return statistics.median(found) / 1e3


def spread(values: list[float]) -> dict[str, float]:
    """Median and quartiles."""
    ordered = sorted(values)
    return {
        "median": round(statistics.median(ordered), 4),
        "low": round(ordered[len(ordered) // 4], 4),
        "high": round(ordered[-1 - len(ordered) // 4], 4),
    }


def shown_regions() -> list[dict[str, Any]]:
    """Each region's numbers, without the paths of the machine."""
    kept = (
        "name",
        "state",
        "nodes",
        "words",
        "served",
        "patched",
        "arena_bytes",
        "launches",
        "capture_ms",
    )
    return [{k: r[k] for k in kept} for r in pygraph_rt.report().to_dict()["regions"]]


def timing(name: str, modes: list[str], device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """Period of each mode, interleaved round by round; GPU-busy time of each."""
    torch.manual_seed(0)
    function, make = WORKLOADS[name](device, tiny)
    inputs = [make() for _ in range(2 if name == "big_inputs" else 8)]
    steps = {mode: compiled(function, mode) for mode in modes}
    rounds, calls = (3, 3) if tiny else (15, 30)
    samples: dict[str, list[float]] = {mode: [] for mode in modes}
    with torch.no_grad():
        with turn(lock, False):
            for step in steps.values():
                for i in range(8):
                    step([t.clone() for t in inputs[i % len(inputs)]])
        with turn(lock, True):
            busy = {mode: gpu_busy_ms(steps[mode], inputs[0]) for mode in modes}
            for number in range(rounds):
                order = modes if number % 2 else modes[::-1]
                for mode in order:
                    samples[mode].append(period_ms(steps[mode], inputs, calls))
    return {
        "workload": name,
        "period_ms": {mode: spread(values) for mode, values in samples.items()},
        "gpu_busy_ms": {mode: round(value, 4) for mode, value in busy.items()},
        "regions": shown_regions(),
    }


def memory(name: str, mode: str, device: str, tiny: bool) -> dict[str, Any]:
    """Seconds until the eighth call is done, and the peak of reserved memory before and after that,
    in MiB.
    """
    torch.manual_seed(0)
    function, make = WORKLOADS[name](device, tiny)
    inputs = [make() for _ in range(4)]
    gpu = torch.cuda.is_available()
    started = time.perf_counter()  # torch.compile imports Inductor: at once, or in the first call
    step = compiled(function, mode)
    with torch.no_grad():
        for i in range(8):
            step([t.clone() for t in inputs[i % 4]])
        synchronize()
        warm_up = time.perf_counter() - started
        gc.collect()
        peak_warm_up = torch.cuda.max_memory_reserved() if gpu else 0
        if gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        for i in range(20):
            step([t.clone() for t in inputs[i % 4]])
        synchronize()
    regions = pygraph_rt.report().to_dict()["regions"]
    return {
        "workload": name,
        "mode": mode,
        "warm_up_s": round(warm_up, 2),
        "capture_s": round(sum(r["capture_ms"] for r in regions) / 1e3, 3),
        "peak_reserved_mib_warm_up": peak_warm_up >> 20,
        "peak_reserved_mib": (torch.cuda.max_memory_reserved() >> 20) if gpu else 0,
        "peak_allocated_mib": (torch.cuda.max_memory_allocated() >> 20) if gpu else 0,
    }


def host(device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """Host microseconds of a served call at ten inputs, called without Dynamo, against the nodes it
    had to patch: of calls that find the GPU idle, and (``in_a_row_us``) of calls that follow each
    other, where the GPU still runs the graph when it is patched and launched again.
    """
    function, make = ten_inputs(device, tiny)
    step = compiled(function, "pygraph")
    sets = [make() for _ in range(2)]
    with torch.no_grad(), turn(lock, False):
        for i in range(6):
            step(sets[i % 2])
    partitions = [p for p in pygraph_rt.pygraph.partitions() if p.replay is not None]
    if not partitions:
        return {"rows": [], "note": "nothing was served on this machine"}
    (partition,) = partitions
    replay = partition.replay

    def one(inputs: list[torch.Tensor], wait: bool = True) -> tuple[float, int]:
        arguments = list(inputs)
        before = replay.patched
        if wait:
            synchronize()
        started = time.perf_counter()
        results = replay(arguments)
        taken = (time.perf_counter() - started) * 1e6
        if results is None:
            raise RuntimeError("the call was not served")
        return taken, replay.patched - before

    def series(name: str, act: Callable[[int, bool], tuple[float, int]]) -> dict[str, Any]:
        results = [act(i, True) for i in range(300)][50:]
        in_a_row = []
        for _ in range(10):
            synchronize()
            in_a_row += [act(i, False)[0] for i in range(32)][1:]
        return {
            "case": name,
            "host_us": spread([r[0] for r in results]),
            "in_a_row_us": spread(in_a_row),
            "patched_nodes": statistics.median(r[1] for r in results),
        }

    def moved_arena(i: int, wait: bool) -> tuple[float, int]:
        held = torch.empty((i % 2 + 1) * (24 << 20), dtype=torch.uint8, device=device)
        result = one(sets[i % 2], wait)
        del held
        return result

    with torch.no_grad(), turn(lock, True):
        rows = [
            series("nothing moved", lambda _, wait: one(sets[0], wait)),
            series(
                "one input of ten moved",
                lambda i, wait: one([sets[i % 2][0], *sets[0][1:]], wait),
            ),
            series("all inputs moved", lambda i, wait: one(sets[i % 2], wait)),
            series("inputs moved, other memory held", moved_arena),
        ]
    return {
        "inputs": 10,
        "nodes": replay.nodes,
        "words": len(replay.plan.patches.patches),
        "launched_by": type(replay._launcher.sub_graphs[0].graph.patcher).__name__,
        "rows": rows,
    }


def end_with_the_parent() -> None:
    """Leave nothing behind that would disturb the next measurement (on Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Run one measurement and print it."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["timing", "memory", "host"])
    parser.add_argument("--workload", default="bert")
    parser.add_argument("--modes", default="default,reduce-overhead,pygraph")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--lock", default="", help="file shared by what runs at the same time")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = True
    if given.what == "timing":
        modes = given.modes.split(",")
        result = timing(given.workload, modes, given.device, given.tiny, given.lock)
    elif given.what == "memory":
        with turn(given.lock, False):
            result = memory(given.workload, given.modes, given.device, given.tiny)
    else:
        result = host(given.device, given.tiny, given.lock)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
