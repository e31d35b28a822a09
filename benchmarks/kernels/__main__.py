"""Compare the code of 20 models under default mode and under `backend="pygraph"`.

    python -m benchmarks.kernels [--models WORDS] [--output FILE]

`--models` keeps the other rows of the file.

On a GPU each model also runs: the configurations that autotuning chose are compared, and the
results bit by bit, beside those of default mode compiled a second time. Without one, Inductor
generates the code for a CUDA device that is not there (standin.py).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.kernels import on_gpu, standin
from benchmarks.kernels.generated import cause, difference, operations, title
from benchmarks.kernels.models import MODELS, Model
from benchmarks.slices import ROOT, commit
from pygraph_rt.inductor import hook

OUTPUT = ROOT / "benchmarks" / "results" / "same_kernels.json"


def default(gm: Any, inputs: Any) -> Any:
    """Compile as torch.compile does without a mode."""
    return torch._TorchCompileInductorWrapper(None, None, None)(gm, inputs)


def compare(model: Model) -> dict[str, Any]:
    """What only default mode generates, and what only the backend does, with the cause of each."""
    placed: list[int] = []

    def record(function: Any, region: Any, reason: str) -> Any:
        placed.append(region.host_values)
        return function

    def backend(gm: Any, inputs: Any) -> Any:
        return hook.compile_graphed(gm, inputs, {}, lambda f, info: f, refuse=record)

    found = []
    for compile_graph in (default, backend):
        with standin.META:
            module = model.module()
        arguments = model.arguments(standin.META)
        sources = standin.generate(module, arguments, compile_graph, model.train, model.dynamic)
        found.append(operations(sources))
    one, other = difference(*found)
    return {
        "cpu_values": model.cpu_values,
        "operations": sum(found[0].values()),
        "same": not one and not other,
        "copied": sum(placed),
        "only_default": [{"what": title(op), "cause": cause(op)} for op in one],
        "only_pygraph": [{"what": title(op), "cause": cause(op)} for op in other],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="", help="only models whose name contains this")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    gpu = torch.cuda.is_available()
    result: dict[str, Any] = {
        "torch": torch.__version__,
        "commit": commit(),
        "device": torch.cuda.get_device_name() if gpu else "none: code generated for an H100",
        "models": {},
    }
    if options.models and options.output.exists():
        result["models"] = json.loads(options.output.read_text("utf-8"))["models"]
    for model in MODELS:
        if options.models not in model.name:
            continue
        row = on_gpu.compare(model) if gpu else compare(model)
        result["models"][model.name] = row
        print(f"{model.name}: {'same' if row['same'] else 'different'}", flush=True)
        options.output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
