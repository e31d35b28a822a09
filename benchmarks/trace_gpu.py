"""What a trace costs on a GPU, and the waits it records beside those that torch's profiler sees.

Cost: wall time of the same work with and without a trace, in turns, after a warm-up in each turn.
Waits: each operation that waits runs once under the profiler and a trace together, behind work that
keeps the GPU busy for milliseconds. Needs torch only; takes less than a minute.

    python -m benchmarks.trace_gpu --out benchmarks/results/trace_gpu.json

`--device cpu` tries the part on the cost, on a machine without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from pygraph_rt.trace.session import Trace

WARM_UP = 10
RUNS = 21
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize", "cudaDeviceSynchronize")
COPIES = ("cudaMemcpyAsync",)  # to or from memory that is not pinned it waits by itself
SHORT_S = 1e-3  # a wait below this is not compared: what the host does around it counts as much
WITHIN = 0.2
HOST = torch.ones(4)
Row = dict[str, Any]
Work = Callable[[int], None]


class Net(torch.nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """As many values as it is given."""
        return self.second(torch.relu(self.first(x)))


def training(device: str, backend: str | None) -> Work:
    """Steps of a training loop that reads its loss each time; compiled where a backend is given."""
    model = Net().to(device)
    forward: Any = model if backend is None else torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(512, 1024, device=device)

    def run(steps: int) -> None:
        for _ in range(steps):
            loss = forward(data).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    return run


def inference(device: str, backend: str) -> Work:
    """Calls of a compiled model on a small batch."""
    compiled = torch.compile(Net().to(device).eval(), backend=backend)
    data = torch.randn(8, 1024, device=device)

    def run(steps: int) -> None:
        with torch.no_grad():
            for _ in range(steps):
                compiled(data)

    return run


def small_operations(device: str) -> Work:
    """Nothing compiled: the least work between two values that are read."""
    data = torch.randn(64, 128, device=device)

    def run(steps: int) -> None:
        for _ in range(steps):
            (data * 2).sum().item()

    return run


def works(device: str) -> dict[str, tuple[Work, int]]:
    """Each work, and how many steps of it are timed."""
    backend, part = ("inductor", 1) if device == "cuda" else ("aot_eager", 100)
    return {
        "compiled training step, its loss read": (training(device, backend), 100 // part),
        "eager training step, its loss read": (training(device, None), 100 // part),
        "compiled inference": (inference(device, backend), 1000 // part),
        "eager small operations, a value read each time": (
            small_operations(device),
            1000 // part,
        ),
    }


def cost(run: Work, steps: int, device: str) -> Row:
    """Wall seconds of turns with and without a trace; the ratio is the median over pairs of turns,
    so that a machine that gets slower or faster meanwhile does not count.
    """
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    took: dict[bool, list[float]] = {False: [], True: []}
    run(WARM_UP)
    for number in range(2 * RUNS):
        traced = number % 2 == 1
        with Trace() if traced else contextlib.nullcontext():
            run(WARM_UP)
            finish()
            began = time.perf_counter()
            run(steps)
            finish()
            took[traced].append(time.perf_counter() - began)
    plain, with_trace = (statistics.median(took[which]) for which in (False, True))
    ratio = statistics.median(t / p for p, t in zip(took[False], took[True], strict=True))
    return {
        "steps": steps,
        "plain_s": plain,
        "traced_s": with_trace,
        "ratio": round(ratio, 3),
        "plain_low_high_s": [min(took[False]), max(took[False])],
        "traced_low_high_s": [min(took[True]), max(took[True])],
    }


def busy() -> torch.Tensor:
    """Work that takes the GPU some milliseconds, so that a wait has a length."""
    x = torch.randn(4096, 4096, device="cuda")
    for _ in range(6):
        x = x @ x / 64
    return x[0, :4].nan_to_num()


def waits_of_the_profiler(run: Callable[[], Any]) -> tuple[list[float], list[float]]:
    """Seconds of each call that waits, and of each copy."""
    torch.cuda.synchronize()
    mark = "pygraph: what is measured"
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=both) as profiler, torch.profiler.record_function(mark):
        run()
    rows = list(profiler.events())
    (span,) = [row.time_range for row in rows if row.name == mark and "CPU" in str(row.device_type)]
    waits, copies = (
        [
            row.time_range.elapsed_us() / 1e6
            for row in rows
            if row.name in names and span.start <= row.time_range.start <= span.end
        ]
        for names in (WAITS, COPIES)
    )
    return waits, copies


# One line each: the trace has to name it.
WAITING: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "float": lambda x: float(x[0]),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "numpy of a copy": lambda x: x.cpu().numpy(),
    "to the host": lambda x: x.to("cpu"),
    "to the GPU": lambda x: x + HOST.to("cuda"),
    "cuda": lambda x: x + HOST.cuda(),
    "a mask as an index": lambda x: x[x > 0],
    "nonzero": lambda x: x.nonzero(),
    "a list as an index": lambda x: x[[0, 1]],
    "a host tensor as an index": lambda x: x[torch.tensor([0, 1])],
    "data": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0], device="cuda"),
    "a function of torch": lambda x: torch.masked_select(x, x > 0),
    "synchronize": lambda x: torch.cuda.synchronize(),
    "a stream": lambda x: torch.cuda.current_stream().synchronize(),
}


def wait(operation: Callable[[torch.Tensor], Any]) -> Row:
    """What the profiler and a trace say of one operation; both saw the same run."""
    operation(busy())
    trace = Trace()

    def run() -> None:
        with trace:
            operation(busy())

    waits, copies = waits_of_the_profiler(run)
    syncs = [event for event in trace.events if event.kind == "sync"]
    known = [event.duration_s for event in syncs if event.duration_s is not None]
    return {
        "profiler_s": sum(waits) + sum(copies),
        "trace_s": sum(known) if known else None,
        "events": len(syncs),
        "right_line": all(e.place.line == operation.__code__.co_firstlineno for e in syncs),
        "detectors": sorted({event.detector for event in syncs}),
    }


def totals(rows: dict[str, Row]) -> Row:
    """How many of the waits are recorded, and how many of the times are right."""
    long = [row for row in rows.values() if row["profiler_s"] >= SHORT_S]
    timed = [row for row in long if row["trace_s"] is not None]
    near = [r for r in timed if abs(r["trace_s"] - r["profiler_s"]) <= WITHIN * r["profiler_s"]]
    return {
        "operations": len(rows),
        "recorded on their line": sum(r["events"] == 1 and r["right_line"] for r in rows.values()),
        "long enough to compare": len(long),
        "with a time": len(timed),
        "within 20 %": len(near),
    }


def measured(device: str) -> Row:
    """Both parts."""
    costs = {}
    for name, (run, steps) in works(device).items():
        costs[name] = cost(run, steps, device)
        print(f"{name}: {costs[name]['ratio']}", flush=True)
    waits = {name: wait(one) for name, one in WAITING.items()} if device == "cuda" else {}
    for name, row in waits.items():
        print(f"{name}: {json.dumps(row)}", flush=True)
    return {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "runs": RUNS,
        "clock": "wall time",
        "cost": costs,
        "waits": {"totals": totals(waits), "operations": waits},
    }


def main() -> None:
    """Measure, print, and write the result where it is asked for."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    made.add_argument("--out", type=Path, help="where to write the result")
    given = made.parse_args()
    torch.manual_seed(0)
    result = measured(given.device)
    print(json.dumps(result["waits"]["totals"], indent=1))
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
