"""What an executable graph costs between its launches: `python -m benchmarks.runtime.graph_memory`.

Graphs of a few sizes are instantiated several times each and launched once; what the GPU then has
less of, and what the process has more of, is divided by their nodes. `pygraph_rt.region.variants`
counts with the result, because the driver does not tell.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.runtime.__main__ import environment
from pygraph_rt.cuda import driver

_COPIES = 8


def resident_bytes() -> int:
    """Memory of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def elementwise(x: torch.Tensor) -> None:
    """One small kernel."""
    x.add_(1)


def product(x: torch.Tensor) -> None:
    """One kernel of cuBLAS."""
    torch.mm(x, x, out=torch.empty_like(x))


KERNELS: dict[str, Callable[[torch.Tensor], None]] = {"elementwise": elementwise, "mm": product}


def measure(name: str, nodes: int) -> dict[str, Any]:
    """Bytes a node of graphs with `nodes` kernels, on the GPU and on the CPU."""
    work = KERNELS[name]
    x = torch.ones(256, 256, device="cuda", dtype=torch.bfloat16)
    work(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        for _ in range(nodes):
            work(x)
    found = driver.load()
    handle = graph.raw_cuda_graph()
    count = len(found.nodes(handle))
    stream = torch.cuda.current_stream()
    torch.cuda.synchronize()
    free, resident = torch.cuda.mem_get_info()[0], resident_bytes()
    executables = [found.instantiate(handle) for _ in range(_COPIES)]
    for executable in executables:
        code = found.launch(executable, stream.cuda_stream)
        assert not code, found.describe(code)
    torch.cuda.synchronize()
    used, grown = free - torch.cuda.mem_get_info()[0], resident_bytes() - resident
    for executable in executables:
        found.destroy_exec(executable)
    torch.cuda.synchronize()
    left = free - torch.cuda.mem_get_info()[0]
    return {
        "kernel": name,
        "nodes": count,
        "copies": _COPIES,
        "gpu_bytes_a_node": round(used / count / _COPIES),
        "cpu_bytes_a_node": round(grown / count / _COPIES),
        "gpu_bytes_left_after_destroying": left,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/graph_memory.json"))
    parser.add_argument("--nodes", default="100,1000,4000", help="sizes, separated by commas")
    options = parser.parse_args()
    sizes = [int(n) for n in options.nodes.split(",")]
    rows = [measure(name, nodes) for name in KERNELS for nodes in sizes]
    result = {
        "environment": environment(),
        "measurements": rows,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
