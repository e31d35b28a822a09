"""1,000 steps of fine-tuning on a fixed trace of lengths, each step in all ways in turn: prints one
JSON object.

Lengths are log-normal between 64 and 2048, batch 8, multiples of `step` (1: nearly each length is
new). All ways see the same lengths in the same order, each with a model of its own; captures and
compilation are part of the time.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks.complaints.parts import Language
from benchmarks.rows import add_row_options, known_regions
from benchmarks.runtime.measure import end_with_the_parent, synchronize, turn

# Lengths are rounded up to multiples of this, by row.
ROWS = {"any_length": 1, "multiples_of_64": 64}
WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"mode": "reduce-overhead"},
    "pygraph": {"backend": "pygraph"},
    "pygraph, 64 variants": {"backend": "pygraph", "options": {"variants": 64}},
}
_SEED, _BATCH, _SETTLED = 20261123, 8, 200


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


def run_all(lengths: list[int], device: str, tiny: bool) -> tuple[dict[str, list[float]], Any]:
    """Milliseconds of each step of each way; the losses."""
    ways = {name: fine_tuning(options, device, tiny) for name, options in WAYS.items()}
    spent: dict[str, list[float]] = {name: [] for name in ways}
    losses: dict[str, list[float]] = {name: [] for name in ways}
    source = torch.Generator().manual_seed(_SEED)
    ids = torch.randint(0, 100, (_BATCH, max(lengths)), generator=source).to(device)
    order = list(ways)
    for length in lengths:
        batch = ids[:, :length].contiguous()
        order.append(order.pop(0))
        for name in order:
            synchronize()
            started = time.perf_counter()
            loss = ways[name](batch)
            synchronize()
            spent[name].append((time.perf_counter() - started) * 1e3)
            losses[name].append(loss.item())
    return spent, losses


def judge(spent: dict[str, list[float]], lengths: list[int]) -> dict[str, dict[str, Any]]:
    """Each way beside default mode: all steps, and each late step beside what default mode takes
    for that length.
    """
    usual: dict[int, list[float]] = {}
    for length, ms in zip(lengths, spent["default"], strict=True):
        usual.setdefault(length, []).append(ms)
    expected = {length: statistics.median(found) for length, found in usual.items()}
    found: dict[str, dict[str, Any]] = {}
    for name, times in spent.items():
        late = list(zip(lengths, times, strict=True))[_SETTLED:] or list(
            zip(lengths, times, strict=True)
        )
        ratios = sorted(ms / expected[length] for length, ms in late)
        found[name] = {
            "all_s": round(sum(times) / 1e3, 2),
            "all_beside_default": round(sum(times) / sum(spent["default"]), 4),
            "late_median_ms": round(statistics.median(ms for _, ms in late), 4),
            "late_ratio_median": round(statistics.median(ratios), 4),
            "late_ratio_99th": round(ratios[int(len(ratios) * 0.99)], 4),
            "late_ratio_worst": round(ratios[-1], 4),
            "late_steps_above_1.5": sum(ratio > 1.5 for ratio in ratios),
        }
    return found


def one(name: str, device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """One trace of lengths."""
    torch._dynamo.config.recompile_limit = 64
    lengths = trace(12 if tiny else 1000, ROWS[name], 96 if tiny else 2048)
    with turn(lock, True):
        spent, losses = run_all(lengths, device, tiny)
    last = {name: round(statistics.fmean(values[-10:]), 5) for name, values in losses.items()}
    kept = ("name", "state", "graphs", "served", "unserved", "misses", "capture_ms", "graph_bytes")
    return {
        "lengths": len(set(lengths)),
        "seen_once": sum(count == 1 for count in Counter(lengths).values()),
        "ways": judge(spent, lengths),
        "mean_of_last_losses": last,
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
