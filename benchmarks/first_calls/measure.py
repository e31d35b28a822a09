"""One model in one mode, from before `torch.compile` to call 500: prints one JSON object.

Importing the backend counts, as importing Inductor does. Each of the calls in `AT` is waited for;
those between run ahead. What the runtime spends on captures comes from its report, and hits of
AOTAutograd's cache come from torch's counters.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from typing import Any

import torch

from benchmarks.first_calls.models import MODELS
from benchmarks.runtime.measure import end_with_the_parent, synchronize, turn

AT = (1, 10, 100, 500)
MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "pygraph": {"backend": "pygraph"},
    "pygraph always": {"backend": "pygraph", "options": {"graphs": "always"}},
}


def seconds_until(model: Any, mode: str, calls: int) -> dict[str, float]:
    """Seconds from before `torch.compile` until each call in `AT` was done."""
    found = {}
    started = time.perf_counter()
    if "backend" in MODES[mode]:
        import pygraph_rt  # noqa: F401
    function = torch.compile(model.module, **MODES[mode])
    for number in range(1, calls + 1):
        if mode == "reduce-overhead":
            torch.compiler.cudagraph_mark_step_begin()
        model.call(function, number - 1)
        if number in AT:
            synchronize()
            found[str(number)] = round(time.perf_counter() - started, 3)
    return found


def spent() -> dict[str, Any]:
    """Milliseconds of captures and of comparisons with compiled code, the number of regions in each
    state, and why some were refused.
    """
    import pygraph_rt

    regions = pygraph_rt.report().to_dict()["regions"]
    times = ("capture_ms", "compare_ms")
    states: dict[str, Any] = {name: round(sum(r[name] for r in regions), 1) for name in times}
    for region in regions:
        states[region["state"]] = states.get(region["state"], 0) + 1
    if reasons := [r["reason"] for r in regions if r["state"] == "refused"]:
        states["reasons"] = reasons
    return states


def cached_graphs() -> dict[str, int]:
    """How many graphs AOTAutograd's cache had, and how many not."""
    from torch._dynamo.utils import counters

    found = counters["aot_autograd"]
    return {each: found[f"autograd_cache_{each}"] for each in ("hit", "miss", "bypass")}


def main() -> None:
    """Measure and print."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=list(MODELS))
    parser.add_argument("--mode", choices=list(MODES), default="default")
    parser.add_argument("--calls", type=int, default=AT[-1])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--lock", default="")
    given = parser.parse_args()
    device = torch.device(given.device)
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch._dynamo.config.recompile_limit = 64
    model = MODELS[given.name](device, given.tiny)
    synchronize()
    training = model.module.training
    with turn(given.lock, True), contextlib.nullcontext() if training else torch.no_grad():
        row: dict[str, Any] = {"s": seconds_until(model, given.mode, given.calls)}
    row["cached_graphs"] = cached_graphs()
    if given.mode.startswith("pygraph"):
        row["spent"] = spent()
    print(json.dumps(row))


if __name__ == "__main__":
    main()
