"""What the rewrites of rows grouped by expert cost and gain: a product per expert, against blocks.

The loop splits rows by sizes that it reads from the device and multiplies each part; the others are
what ``grouped_experts`` writes into a file: torch's kernel for groups where it
can be used, and blocks of one length where it can't. Times are medians over rounds in
which every variant takes its turn; each is the wall time of several calls that the device has
finished. ``spread`` is the distance between the quartiles.

    python -m benchmarks.grouped_rows
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch._dynamo
from pygraph_lint.fixes.blocks import HELPER

from benchmarks.clock import seconds_a_call, spread
from benchmarks.workloads.environment import describe

Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
RESULTS = Path(__file__).parent / "results" / "grouped_rows.json"
CALLS = 10


class Shape(NamedTuple):
    """Experts of (columns, width), ``chosen`` for each token; after whom they are shaped."""

    name: str
    experts: int
    columns: int
    width: int
    chosen: int


SHAPES = {
    "cuda": (
        Shape("granite-3.0-3b-a800m", 40, 1536, 1024, 8),
        Shape("Aria", 64, 2560, 3328, 6),
    ),
    "cpu": (Shape("small", 8, 256, 256, 2),),
}
TOKENS = {"cuda": (1, 32, 1024, 8192), "cpu": (1, 32, 256)}


def loop(rows: torch.Tensor, weights: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """One product per expert."""
    parts = rows.split(sizes.tolist(), dim=0)
    return torch.cat([torch.matmul(parts[i], weights[i]) for i in range(weights.size(0))], dim=0)


def written(kernel: bool) -> Function:
    """The function that the rewrites write into a file; `kernel`: it may use torch's."""
    module: dict[str, Any] = {"torch": torch}
    text = HELPER if kernel else HELPER.replace('"grouped_mm"', '"none"')
    exec(compile(text, f"grouped_matmul_{kernel}.py", "exec"), module)
    function: Function = module["grouped_matmul"]
    return function


def variants(device: torch.device) -> dict[str, Function]:
    """What takes turns, by name."""
    found: dict[str, Function] = {
        "loop": loop,
        "loop, compiled": torch.compile(loop, dynamic=False),
    }
    for name, kernel in (("blocks", False), ("kernel", True)):
        found[name] = written(kernel)
        found[f"{name}, compiled"] = torch.compile(written(kernel), dynamic=False)
        if device.type == "cuda":
            graphed = torch.compile(written(kernel), dynamic=False, mode="reduce-overhead")
            found[f"{name}, CUDA graph"] = graphed
    return found


def inputs(shape: Shape, tokens: int, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Rows sorted by expert, the experts' matrices, and how many rows each has."""
    generator = torch.Generator(device).manual_seed(tokens)
    made = {
        "generator": generator,
        "device": device,
        "dtype": torch.bfloat16 if device.type == "cuda" else torch.float32,
    }
    chosen = torch.rand(tokens, shape.experts, generator=generator, device=device)
    sizes = torch.bincount(chosen.topk(shape.chosen).indices.flatten(), minlength=shape.experts)
    rows = torch.randn(tokens * shape.chosen, shape.columns, **made)
    weights = torch.randn(shape.experts, shape.columns, shape.width, **made)
    return rows, weights / shape.columns**0.5, sizes


def measure(shape: Shape, tokens: int, device: torch.device, rounds: int) -> dict[str, Any]:
    """Microseconds per call of every variant, and how far its result is from the loop's."""
    torch._dynamo.reset()
    arguments = inputs(shape, tokens, device)
    takes_turns = variants(device)
    seconds: dict[str, list[float]] = {name: [] for name in takes_turns}
    differs = {}
    with torch.no_grad():
        expected = loop(*arguments)
        for name, function in takes_turns.items():
            for _ in range(3):
                result = function(*arguments).clone()
            differs[name] = float((result - expected).abs().max())
        for _ in range(rounds):
            for name, function in takes_turns.items():
                call = partial(function, *arguments)
                seconds[name].append(seconds_a_call(call, device, CALLS))
    return {
        "shape": shape._asdict(),
        "tokens": tokens,
        "variants": {
            name: {
                "us": round(statistics.median(those) * 1e6, 1),
                "spread_us": round(spread(those) * 1e6, 1),
                "differs": differs[name],
            }
            for name, those in seconds.items()
        },
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    found = "cuda" if torch.cuda.is_available() else "cpu"
    parser.add_argument("--device", default=found, choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    rows = []
    for shape in SHAPES[device.type]:
        for tokens in TOKENS[device.type]:
            rows.append(measure(shape, tokens, device, arguments.rounds))
            times = {name: one["us"] for name, one in rows[-1]["variants"].items()}
            print(shape.name, tokens, times, flush=True)
    result = {"environment": describe(device), "calls": CALLS, "rows": rows}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
