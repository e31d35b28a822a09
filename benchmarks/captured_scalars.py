"""What it takes to capture numbers that only the device knows, and what becomes of the graph.

Small programs read a number from a tensor (`.item()`, `.tolist()`) or select through a mask. Each
is a function that another, compiled one calls, plain, under the decorator that changes Dynamo's
settings while it traces a function (``torch._dynamo.patch_dynamo_config``), and with the
settings made for the whole process. The answer for each backend is the number of graphs that it
takes (one, where nothing breaks), or the exception.

With ``--copy`` the same is asked, plain and for the whole process, of models of a copy of
transformers that ``make bench-fix-models`` has made: those whose graph still breaks there.

    python -m benchmarks.captured_scalars --copy .venv-truth/fix_models/unsafe
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import statistics
import sys
import timeit
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F

Tensor = torch.Tensor
Program = Callable[[Tensor, Tensor], Tensor]
RESULTS = Path(__file__).parent / "results" / "captured_scalars.json"
BACKENDS = ("eager", "aot_eager", "inductor")
PROCESS = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
ROWS, COLUMNS = 12, 8


def factory(x: Tensor, n: Tensor) -> Tensor:
    """A new tensor of that size."""
    return x.new_ones(int(n[0].item()), x.shape[1])


def split(x: Tensor, n: Tensor) -> Tensor:
    """Parts of those sizes, put together again."""
    return torch.cat([part * 2 for part in x.split(n.tolist())])


def attention(x: Tensor, n: Tensor) -> Tensor:
    """Attention within parts of those sizes."""
    parts = [part[None] for part in x.split(n.tolist())]
    return torch.cat([F.scaled_dot_product_attention(p, p, p) for p in parts], dim=1)


def resized(x: Tensor, n: Tensor) -> Tensor:
    """Resized to that height and width."""
    height, width = n.tolist()[:2]
    return F.interpolate(x[None, None], size=(height, width), mode="bilinear")


def positions(x: Tensor, n: Tensor) -> Tensor:
    """Positions up to that number, looked up."""
    return x[torch.arange(int(n.max()))]


def masked(x: Tensor, n: Tensor) -> Tensor:
    """Arithmetic on the rows that a mask selects."""
    y = x.clone()
    rows = x[:, 0] > 0
    y[rows] = x[rows].softmax(-1)
    return y


def arithmetic(x: Tensor, n: Tensor) -> Tensor:
    """A factor."""
    return x * n.sum().item()


def condition(x: Tensor, n: Tensor) -> Tensor:
    """A condition."""
    return x + 1 if n[0].item() > 2 else x - 1


def turns(x: Tensor, n: Tensor) -> Tensor:
    """The number of turns of a loop."""
    for _ in range(int(n[0].item())):
        x = x + 1
    return x


_SIZES = (factory, split, attention, resized, positions)
PROGRAMS: tuple[Program, ...] = (*_SIZES, masked, arithmetic, condition, turns)


def outcome(program: Program, backend: str) -> int | str:
    """The number of graphs that one compiled call through another function ends up in, or the type
    of the exception; 0 where all of it runs eagerly.
    """
    x = torch.linspace(-1, 1, ROWS * COLUMNS).view(ROWS, COLUMNS)
    n = torch.tensor([4, 5, 3])
    graphs: list[torch.fx.GraphModule] = []

    def counting(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Any:
        graphs.append(graph)
        return torch._dynamo.lookup_backend(backend)(graph, inputs)

    def outer(x: Tensor, n: Tensor) -> Tensor:
        return program(x + 0, n) * 1

    torch._dynamo.reset()
    try:
        got = torch.compile(outer, backend=counting)(x, n)
    except Exception as error:  # whatever it raises is the answer
        return type(error).__name__
    return len(graphs) if torch.allclose(got, outer(x, n), atol=1e-5) else "another result"


def ways(program: Program) -> dict[str, dict[str, int | str]]:
    """The outcomes by the way that the settings are made, and the backend."""
    decorated = torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)(program)
    found = {
        "plain": {name: outcome(program, name) for name in BACKENDS},
        "decorator": {name: outcome(decorated, name) for name in BACKENDS},
    }
    with torch._dynamo.config.patch(PROCESS):
        found["process"] = {name: outcome(program, name) for name in BACKENDS}
    return found


def decorator_microseconds() -> float:
    """What the decorator adds to an eager call."""

    def nothing() -> None:
        pass

    decorated = torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)(nothing)
    calls = 1000
    times = [
        [timeit.timeit(call, number=calls) / calls for _ in range(9)]
        for call in (nothing, decorated)
    ]
    plain, more = map(statistics.median, times)
    return round((more - plain) * 1e6, 1)


def of_models(copy: Path, names: list[str]) -> dict[str, Any]:
    """For each model whose graph breaks in a copy: its breaks, or the exception, by way and
    backend.
    """
    sys.path.insert(0, str(copy))
    from benchmarks.fix_models.records import own_breaks
    from benchmarks.lint_truth import dynamo_breaks, packages, preload
    from benchmarks.lint_truth.builders import build
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.worker import quiet, seed_all

    packages.declare_vision_operators()
    preload.load()

    def breaks(entry: Any) -> dict[str, Any]:
        model, inputs = build(entry, "eval")
        seed_all()
        seen = dynamo_breaks.observe(model, 1, **inputs)
        counted = own_breaks({"breaks": [dataclasses.asdict(one) for one in seen.breaks]})
        error = type(seen.error).__name__ if seen.error else None
        return {"breaks": len(counted), "error": error}

    def behind(entry: Any) -> str:
        """What AOTAutograd says of the graphs, which every compiling backend runs first."""
        model, inputs = build(entry, "eval")
        seed_all()
        torch._dynamo.reset()
        try:
            torch.compile(model, backend="aot_eager")(**inputs)
        except Exception as error:  # whatever it raises is the answer
            return type(error).__name__
        return "compiled"

    found: dict[str, Any] = {}
    for entry in catalogue():
        if entry.name not in names:
            continue
        for way, settings in (("plain", {}), ("process", PROCESS)):
            with quiet(), torch.no_grad(), torch._dynamo.config.patch(settings):
                row = breaks(entry) | {"aot_eager": behind(entry)}
            found.setdefault(entry.name, {})[way] = row
        print(entry.name, found[entry.name], flush=True)
    return found


def still_breaking(results: Path) -> list[str]:
    """The models whose graph breaks in evaluation with all fixes made."""
    rows = json.loads(results.read_text())["rows"]
    return [
        row["model"]
        for row in rows
        if row["mode"] == "eval" and row["unsafe"].get("breaks", {}).get("events")
    ]


def main() -> None:
    """Command line. Results of other versions of torch in the file are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copy", type=Path, help="of transformers, fixed: also ask its models")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    result: dict[str, Any] = {
        "decorator_us": decorator_microseconds(),
        "programs": {program.__name__: ways(program) for program in PROGRAMS},
    }
    if arguments.copy:
        names = still_breaking(RESULTS.parent / "fix_models.json")
        result["models"] = of_models(arguments.copy, names)
    kept: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError):
        kept = json.loads(arguments.out.read_text())
    kept[torch.__version__] = {**kept.get(torch.__version__, {}), **result}
    arguments.out.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
    print(json.dumps(result["programs"], indent=1))


if __name__ == "__main__":
    main()
