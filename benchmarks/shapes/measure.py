"""1,000 steps of fine-tuning on a fixed trace of lengths, each step by default mode and by another
way in turn: prints one JSON object.

Lengths are log-normal between 64 and 2048, batch 8, multiples of a number (1: nearly each length is
new). Both see the same lengths in the same order, each with a model and with caches of compiled
code of its own, empty at the start; captures and compilation are part of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from bisect import bisect
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from benchmarks.complaints.parts import Language
from benchmarks.regional.measure import build_helper
from benchmarks.rows import add_row_options, known_regions
from benchmarks.runtime.measure import end_with_the_parent, synchronize, turn

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "pygraph": {"backend": "pygraph"},
    "pygraph, 64 variants": {"backend": "pygraph", "options": {"variants": 64}},
}
# Rows: lengths are rounded up to multiples of the first, the second is beside default mode.
ROWS = {
    "any_length": (1, "pygraph"),
    "any_length_64_variants": (1, "pygraph, 64 variants"),
    "any_length_reduce_overhead": (1, "reduce-overhead"),
    "multiples_of_64": (64, "pygraph"),
    "multiples_of_64_64_variants": (64, "pygraph, 64 variants"),
    "multiples_of_64_reduce_overhead": (64, "reduce-overhead"),
}
_SEED, _BATCH, _SETTLED = 20261123, 8, 200
_MOST_SECONDS = 360.0  # of all steps: where they take longer, the rest of the trace is left out
_NEAR = 4  # steps of default mode with lengths nearest to a step's, on either side


class Step(NamedTuple):
    """Milliseconds, the loss, and whether something was compiled and device memory was allocated or
    freed meanwhile.
    """

    ms: float
    loss: float
    compiled: bool = False
    allocated: bool = False


def trace(steps: int, multiple: int, longest: int = 2048) -> list[int]:
    """The lengths."""
    source = random.Random(_SEED)
    drawn = (int(source.lognormvariate(5.6, 0.7)) for _ in range(steps))
    rounded = (-(-length // multiple) * multiple for length in drawn)
    return [min(longest, max(64, length)) for length in rounded]


def fine_tuning(options: dict[str, Any], device: str, tiny: bool) -> Callable[[torch.Tensor], Any]:
    """A step of a language model of 768, 6 layers, fused AdamW, compiled in one way."""
    torch.manual_seed(0)
    sizes = (100, 32, 2, 1) if tiny else (32000, 768, 12, 6)
    model = Language(*sizes).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=device == "cuda")
    run = torch.compile(model, dynamic=True, **options)

    def step(ids: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, torch.bfloat16):
            logits = run(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step


def use_caches(folder: str) -> None:
    """Compiled code is kept in a folder from now on."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = str(Path(folder, "triton"))


def events() -> tuple[int, int]:
    """How many graphs were compiled, and how often device memory was allocated or freed."""
    compiled = torch._dynamo.utils.counters["inductor"]
    looked_up = sum(compiled[f"fxgraph_cache_{found}"] for found in ("hit", "miss", "bypass"))
    memory = torch.cuda.memory_stats() if torch.cuda.is_available() else {}
    return looked_up, sum(memory.get(f"num_device_{what}", 0) for what in ("alloc", "free"))


def run_all(names: list[str], lengths: list[int], device: str, tiny: bool) -> dict[str, list[Step]]:
    """The steps of each way, as many as there is time for."""
    ended = time.monotonic() + _MOST_SECONDS
    ways = {name: fine_tuning(WAYS[name], device, tiny) for name in names}
    steps: dict[str, list[Step]] = {name: [] for name in ways}
    source = torch.Generator().manual_seed(_SEED)
    ids = torch.randint(0, 100, (_BATCH, max(lengths)), generator=source).to(device)
    order = list(ways)
    with tempfile.TemporaryDirectory() as folder:
        for length in lengths:
            if time.monotonic() > ended:
                break
            batch = ids[:, :length].contiguous()
            order.append(order.pop(0))
            for name in order:
                use_caches(str(Path(folder, name)))
                before = events()
                synchronize()
                started = time.perf_counter()
                loss = ways[name](batch)
                synchronize()
                ms = (time.perf_counter() - started) * 1e3
                changed = (a != b for a, b in zip(events(), before, strict=True))
                steps[name].append(Step(ms, loss.item(), *changed))
    return steps


def expected_ms(steps: list[Step], lengths: list[int]) -> list[float]:
    """What default mode takes for each step's length: the median of its steps that are nearest in
    length.
    """
    ordered = sorted((length, step.ms) for length, step in zip(lengths, steps, strict=True))
    found = {}
    for length in set(lengths):
        first, last = bisect(ordered, (length, 0.0)), bisect(ordered, (length + 1, 0.0))
        near = ordered[max(0, first - _NEAR) : last + _NEAR]
        found[length] = statistics.median(ms for _, ms in near)
    return [found[length] for length in lengths]


def judge(steps: dict[str, list[Step]], lengths: list[int]) -> dict[str, dict[str, Any]]:
    """Each way beside default mode: all steps, and each late step beside what default mode takes
    for that length.
    """
    usual = expected_ms(steps["default"], lengths)
    settled = _SETTLED if len(lengths) > _SETTLED else 0
    found: dict[str, dict[str, Any]] = {}
    for name, taken in steps.items():
        late = taken[settled:]
        ratios = [step.ms / ms for step, ms in zip(late, usual[settled:], strict=True)]
        slow = [step for step, ratio in zip(late, ratios, strict=True) if ratio > 1.5]
        all_ms = sum(step.ms for step in taken)
        found[name] = {
            "all_s": round(all_ms / 1e3, 2),
            "all_beside_default": round(all_ms / sum(s.ms for s in steps["default"]), 4),
            "steps_that_compile_s": round(sum(s.ms for s in taken if s.compiled) / 1e3, 2),
            "late_median_ms": round(statistics.median(step.ms for step in late), 4),
            "late_ratio_median": round(statistics.median(ratios), 4),
            "late_ratio_99th": round(sorted(ratios)[int(len(ratios) * 0.99)], 4),
            "late_ratio_worst": round(max(ratios), 4),
            "late_steps_above_1.5": len(slow),
            "of_these_compile": sum(step.compiled for step in slow),
            "of_these_allocate_device_memory": sum(step.allocated for step in slow),
        }
    return found


def one(name: str, device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """One trace of lengths."""
    torch._dynamo.config.recompile_limit = 64
    multiple, way = ROWS[name]
    lengths = trace(12 if tiny else 1000, multiple, 96 if tiny else 2048)
    torch.compile(lambda x: x.sin() + 1)(torch.ones(8, device=device))  # Inductor is there
    build_helper()
    with turn(lock, True):
        steps = run_all(["default", way], lengths, device, tiny)
    lengths = lengths[: len(steps[way])]
    last = {each: fmean(step.loss for step in taken[-10:]) for each, taken in steps.items()}
    kept = ("name", "state", "graphs", "served", "unserved", "misses", "capture_ms", "graph_bytes")
    return {
        "steps": len(lengths),
        "lengths": len(set(lengths)),
        "seen_once": sum(count == 1 for count in Counter(lengths).values()),
        "ways": judge(steps, lengths),
        "mean_of_last_losses": {each: round(loss, 5) for each, loss in last.items()},
        "regions": known_regions(kept, 12),
    }


def main() -> None:
    """Measure one trace and print it."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    add_row_options(parser)
    given = parser.parse_args()
    print(json.dumps(one(given.name, given.device, given.tiny, given.lock)))


if __name__ == "__main__":
    main()
