"""What tracing costs on the CPU: the same work with and without a trace, by CPU time.

Runs alternate in one process, after a warm-up. A ratio is the median of the traced runs over the
median of the others.

    make bench-trace-overhead
"""

from __future__ import annotations

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

from pygraph_rt.trace.session import Trace

RESULT = Path(__file__).parent / "results" / "trace_overhead.json"
RUNS = 9
STEPS = 200
WIDTH = 128


class Model(torch.nn.Module):
    """Two layers; `breaks` ends a graph between them."""

    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 1)
        self.breaks = breaks

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One value a row."""
        x = torch.relu(self.first(x))
        if self.breaks and x.sum() > -1:
            x = x * 2
        return self.second(x)


def training(breaks: bool) -> Callable[[], None]:
    """A training loop that reads its loss at each step, compiled before it is measured."""
    model = Model(breaks)
    compiled = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(64, WIDTH)

    def run() -> None:
        for _ in range(STEPS):
            loss = compiled(data).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            loss.item()

    run()
    return run


def inference() -> Callable[[], None]:
    """Calls of a small compiled model."""
    compiled = torch.compile(Model(False).eval(), backend="aot_eager")
    data = torch.randn(64, WIDTH)

    def run() -> None:
        with torch.no_grad():
            for _ in range(STEPS):
                compiled(data)

    run()
    return run


def compiling() -> Callable[[], None]:
    """Compiling a model with a graph break, again and again."""
    data = torch.randn(64, WIDTH)

    def run() -> None:
        for _ in range(3):
            torch._dynamo.reset()
            torch.compile(Model(True), backend="aot_eager")(data)

    run()
    return run


def eager() -> Callable[[], None]:
    """Nothing compiled: small operations, a value read in each step."""
    data = torch.randn(64, WIDTH)

    def run() -> None:
        for _ in range(STEPS * 5):
            (data * 2).sum().item()
            data[0]

    run()
    return run


WORK: dict[str, Callable[[], Callable[[], None]]] = {
    "training, one graph": lambda: training(False),
    "training, a graph break": lambda: training(True),
    "inference": inference,
    "compiling": compiling,
    "eager, a value read in each step": eager,
}


def measured(run: Callable[[], None]) -> dict[str, Any]:
    """CPU seconds of alternating runs."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * RUNS + 2):
        traced = number % 2 == 1
        with Trace() if traced else contextlib.nullcontext():
            began = time.process_time()
            run()
            took = time.process_time() - began
        if number >= 2:  # the first of each kind warms up
            seconds[traced].append(took)
    plain, with_trace = (statistics.median(seconds[k]) for k in (False, True))
    return {
        "plain_s": plain,
        "traced_s": with_trace,
        "ratio": round(with_trace / plain, 3),
        "plain_low_high_s": [min(seconds[False]), max(seconds[False])],
        "traced_low_high_s": [min(seconds[True]), max(seconds[True])],
    }


def main() -> None:
    """Measure, print, and write the result."""
    torch.set_num_threads(1)
    rows = {}
    for name, make in WORK.items():
        torch._dynamo.reset()
        rows[name] = measured(make())
        print(f"{name}: {rows[name]['ratio']}", flush=True)
    result = {
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "runs": RUNS,
        "clock": "CPU time of the process",
        "rows": rows,
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
