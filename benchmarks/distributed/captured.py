"""What a captured collective is made of, and what happens where not all ranks replay it.

    python -m benchmarks.distributed.captured --ranks 2

Each case runs in processes of its own with a time limit. NCCL's guide asks that all ranks use the
graph of one common capture, or none does (*Using NCCL with CUDA Graphs*).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as distributed

from benchmarks import slices
from benchmarks.runtime.__main__ import environment
from pygraph_rt.cuda.driver import load
from pygraph_rt.cuda.structures import KERNEL, NODE_KINDS

OUT = Path(__file__).parents[1] / "results" / "captured_collectives.json"
SIZE = 1 << 20
STEPS = 20
SECONDS = 25

Step = Callable[[torch.Tensor], torch.Tensor]
CASES: dict[str, tuple[str, str]] = {
    "all replay": ("graph", "graph"),
    "one replays, the others don't": ("graph", "eager"),
    "they take turns": ("turns", "other turns"),
    "one captures again": ("graph", "again"),
}
"""What the first rank does, and what all others do."""


class Captured(NamedTuple):
    """A graph with a collective, where it reads its argument from, and its result."""

    graph: torch.cuda.CUDAGraph
    x: torch.Tensor
    result: torch.Tensor


def compute(x: torch.Tensor) -> torch.Tensor:
    """Something before a collective, and something after it."""
    y = x * 2
    distributed.all_reduce(y)
    return y + 1


def capture() -> Captured:
    """Capture it in a stream of its own, as torch advises."""
    x = torch.zeros(SIZE, device="cuda")
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        result = compute(x)
    graph.instantiate()
    return Captured(graph, x, result)


def replay(captured: Captured, x: torch.Tensor) -> torch.Tensor:
    captured.x.copy_(x)
    captured.graph.replay()
    return captured.result


def contents(captured: Captured) -> dict[str, Any]:
    """The nodes of a graph by kind, and NCCL's kernels."""
    driver = load()
    nodes = driver.nodes(captured.graph.raw_cuda_graph())
    kinds: dict[str, int] = {}
    kernels = []
    for node in nodes:
        kind = driver.node_type(node)
        name = NODE_KINDS.get(kind, str(kind))
        kinds[name] = kinds.get(name, 0) + 1
        if kind == KERNEL:
            found = driver.kernel_node(node)
            if "nccl" in found.name.lower():
                kernels.append({"name": found.name})
    return {"nodes": kinds, "nccl_kernels": kernels}


def steps_of(what: str) -> Step:
    """A step of this rank, by its name in CASES."""
    captured = capture()
    if what == "eager":
        return compute
    if what == "graph":
        return lambda x: replay(captured, x)
    if what == "again":
        again = capture()
        return lambda x: replay(again, x)
    count = [0 if what == "turns" else 1]

    def step(x: torch.Tensor) -> torch.Tensor:
        count[0] += 1
        return replay(captured, x) if count[0] % 2 else compute(x)

    return step


def worker(case: str, out: Path) -> None:
    """One rank of a case; its result is in a file of `out`."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    limit = datetime.timedelta(seconds=60)
    distributed.init_process_group("nccl", timeout=limit, device_id=device)
    compute(torch.ones(SIZE, device=device))
    torch.cuda.synchronize()
    step = steps_of(CASES[case][0 if rank == 0 else 1])
    found: dict[str, Any] = {"rank": rank, **contents(capture())}
    wrong, started = 0, time.perf_counter()
    for number in range(STEPS):
        x = torch.full((SIZE,), float(rank + number), device=device)
        expected = 2.0 * sum(other + number for other in range(ranks)) + 1
        wrong += not bool((step(x) == expected).all())
    torch.cuda.synchronize()
    found |= {"wrong": wrong, "ms": (time.perf_counter() - started) * 1e3 / STEPS}
    (out / f"rank{rank}.json").write_text(json.dumps(found))
    os._exit(0)  # a graph that holds a collective may keep a group from being destroyed


def main() -> None:
    """Run all cases, and write what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--row", default="", help="this rank's case (of a process that is started)")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--mode", help="not used")
    given = parser.parse_args()
    if given.row:
        worker(given.row, given.out)
        return
    rows = [run(case, given.ranks) for case in CASES]
    content = {"environment": environment(), "nccl": torch.cuda.nccl.version(), "rows": rows}
    given.out.write_text(json.dumps(content, indent=1) + "\n")


def run(case: str, ranks: int) -> dict[str, Any]:
    """A row: what each rank found, or that it did not end."""
    import tempfile

    from benchmarks.distributed.__main__ import launch
    from benchmarks.distributed.cases import Case
    from benchmarks.distributed.rows import Row

    row = Row("", Case(case, ""), STEPS, SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        found = launch(row, ranks, False, "", Path(folder), "benchmarks.distributed.captured")
    print(case, found, flush=True)
    return {"name": case, "world": ranks, **slices.stamp(), **found}


if __name__ == "__main__":
    main()
