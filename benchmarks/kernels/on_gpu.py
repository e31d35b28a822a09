"""The same comparison on a real GPU: generated code, autotuned configurations, results."""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
import torch._inductor.config
from torch._inductor.codecache import PyCodeCache
from torch._inductor.utils import run_and_get_code
from torch.utils import _pytree as pytree

from benchmarks.kernels.generated import cause, difference, operations, title
from benchmarks.kernels.models import Model

ARMS: dict[str, dict[str, Any]] = {
    "default": {},
    "default again": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "pygraph, no graphs": {"backend": "pygraph", "options": {"graphs": "never"}},
    "pygraph, not placed": {
        "backend": "pygraph",
        "options": {"graphs": "never", "placement": False},
    },
}


def _run(model: Model, device: torch.device, arm: dict[str, Any]) -> tuple[list[str], list[Any]]:
    """The generated modules, and all results and gradients, on the same numbers in each arm."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with device:
        module = model.module()
    arguments = model.arguments(device)
    compiled = torch.compile(module, dynamic=model.dynamic, **arm)

    def call() -> Any:
        torch.manual_seed(1)
        with torch.set_grad_enabled(model.train):
            results = [t for t in pytree.tree_leaves(compiled(*arguments)) if torch.is_tensor(t)]
            if model.train:
                results[0].float().square().sum().backward()
        return results

    results, sources = run_and_get_code(call)
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return sources, [t.detach().clone() for t in (*results, *gradients, *module.buffers())]


def _configurations(first: int) -> Counter[str]:
    """What autotuning chose for each kernel of the modules loaded since the `first`."""
    chosen: Counter[str] = Counter()
    for module in PyCodeCache.modules[first:]:
        for name, kernel in vars(module).items():
            launchers = getattr(kernel, "launchers", None)
            if isinstance(launchers, list) and launchers:
                chosen[f"{name}: {getattr(launchers[0], 'config', None)}"] += 1
    return chosen


def _furthest(one: list[Any], other: list[Any]) -> float:
    pairs = [(a.double(), b.double()) for a, b in zip(one, other, strict=True)]
    return max((float((a - b).abs().max()) for a, b in pairs if a.numel()), default=0.0)


def compare(model: Model) -> dict[str, Any]:
    """Every arm against default mode. Caches are off, so that each arm tunes for itself."""
    device = torch.device("cuda", torch.cuda.current_device())
    arms: dict[str, tuple[Counter[str], Counter[str], list[Any]]] = {}
    with torch._inductor.config.patch(force_disable_caches=True):
        for name, arm in ARMS.items():
            first = len(PyCodeCache.modules)
            sources, results = _run(model, device, arm)
            arms[name] = operations(sources), _configurations(first), results
    base, tuned, expected = arms["default"]
    row: dict[str, Any] = {"cpu_values": model.cpu_values, "operations": sum(base.values())}
    for name, (found, chosen, results) in arms.items():
        one, other = difference(base, found)
        row[name] = {
            "same": not one and not other,
            "only_default": [{"what": title(op), "cause": cause(op)} for op in one],
            "only_here": [{"what": title(op), "cause": cause(op)} for op in other],
            "configurations": [list(side) for side in difference(tuned, chosen)],
            "furthest": _furthest(expected, results),
        }
    row["same"] = row["pygraph, no graphs"]["same"]
    return row
