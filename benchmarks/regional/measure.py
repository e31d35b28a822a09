"""One row, such as `llama32_training`, in a process of its own: prints one JSON object.

Each way to compile begins with empty caches of compiled code and is warmed up, one after the other;
then all are timed in turn. pygraph's own compiled helper, which is built once a machine, is there.
What the host does in a step is split into regions (allocating, patching, launching) and all else
(guards, wrappers, autograd, the model's own Python).
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks.regional.models import MODELS, Case
from benchmarks.rows import add_row_options, known_regions, without_paths
from benchmarks.runtime.measure import end_with_the_parent, gpu_busy_ms, spread, synchronize, turn
from pygraph_rt.backend import _graph_maker
from pygraph_rt.cuda.native import memory
from pygraph_rt.region.region import Partition
from pygraph_rt.repeated import compile_blocks

WAYS = (
    "whole default",
    "whole pygraph",
    "blocks default",
    "blocks reduce-overhead",
    "blocks pygraph",
)
_COLD_STEPS, _SETTLING, _ROUNDS, _CALLS = 12, 60, 9, 8
Compiler = Callable[[Any], Any]


def compiler(mode: str) -> Compiler:
    """Compiles as a mode does. Serving is measured here, not choosing."""
    if mode == "pygraph":
        options = {"graphs": "always"}
        return partial(torch.compile, backend="pygraph", options=options)
    return partial(torch.compile, mode=None if mode == "default" else mode)


def compiled(model: nn.Module, way: str) -> Any:
    """The model compiled in one of the ways; blocks in place."""
    what, mode = way.split()
    if what == "whole":
        return compiler(mode)(model)
    compile_blocks(model, compiler(mode))
    return model


class Way:
    """A copy of the model, compiled in one way."""

    def __init__(self, way: str, case: Case, training: bool) -> None:
        self.name, self.row, self.error = way, dict[str, Any](), ""
        self._case, self._training, self._number = case, training, 0
        self._model = copy.deepcopy(case.model).train(training)
        if way != "eager":
            self._run = compiled(self._model, way)
        else:
            self._run = self._model

    def step(self, *_: Any) -> torch.Tensor:
        """One step; returns the output, or the loss."""
        inputs = self._case.inputs[self._number % len(self._case.inputs)]
        self._number += 1
        if not self._training:
            with torch.no_grad():
                return self._case.call(self._run, *inputs)
        self._model.zero_grad(set_to_none=True)
        loss = self._case.call(self._run, *inputs).float().square().mean()
        loss.backward()
        return loss.detach()

    def results(self) -> list[torch.Tensor]:
        """A step's output, and the norm of each gradient."""
        found = [self.step().float().clone()]
        grads = [p.grad for p in self._model.parameters() if p.grad is not None]
        return [*found, *torch._foreach_norm(grads)] if grads else found

    def period(self) -> float:
        """Milliseconds a step."""
        synchronize()
        started = time.perf_counter()
        for _ in range(_CALLS):
            self.step()
        synchronize()
        return (time.perf_counter() - started) / _CALLS * 1e3


@contextlib.contextmanager
def empty_caches() -> Iterator[None]:
    """Compile as on a machine that has never compiled this."""
    from torch._inductor import utils

    fresh = getattr(utils, "fresh_cache", None) or utils.fresh_inductor_cache
    with fresh():
        yield


def build_helper() -> None:
    """Build what a long run builds once a machine; outside of caches that are emptied."""
    if torch.cuda.is_available():
        native = _graph_maker().platform.native.memory
        assert native is not None
        memory.build(native.folder)


def begin(name: str, case: Case, training: bool, expected: list[torch.Tensor]) -> Way:
    """Compile and warm up: seconds until the results of the first steps are there, the furthest
    that a result is from eager's, memory.
    """
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    way = Way(name, case, training)
    held = torch.cuda.memory_reserved() if torch.cuda.is_available() else 0
    started = time.perf_counter()
    try:
        with empty_caches():
            found = way.results()
            synchronize()
            way.row["first_step_s"] = round(time.perf_counter() - started, 2)
            for _ in range(_COLD_STEPS):
                way.step()
            synchronize()
            way.row["cold_s"] = round(time.perf_counter() - started, 2)
        way.row["furthest"] = furthest(found, expected)
    except Exception as error:  # what this way does with the model is what is measured
        lines = str(error).strip().splitlines() or [""]
        way.error = f"{type(error).__name__}: {without_paths(lines[0])}"[:300]
        way.row["error"] = way.error
    if torch.cuda.is_available():
        way.row["reserved_mib"] = (torch.cuda.max_memory_reserved() - held) >> 20
    return way


def furthest(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference, relative to the largest value of each result."""
    gaps = [
        ((a - b).abs().max() / b.abs().max().clamp(min=1e-12)).item()
        for a, b in zip(found, expected, strict=True)
    ]
    return round(max(gaps), 5)


def in_regions(way: Way) -> dict[str, float]:
    """Host milliseconds of a step: in all, and within regions; and how many regions are called."""
    inside, calls = 0.0, 0
    original = Partition.__call__

    def clocked(self: Partition, *args: Any, **kwargs: Any) -> Any:
        nonlocal inside, calls
        started = time.perf_counter()
        try:
            return original(self, *args, **kwargs)
        finally:
            inside += time.perf_counter() - started
            calls += 1

    Partition.__call__ = clocked  # type: ignore[method-assign]
    try:
        synchronize()
        started = time.perf_counter()
        for _ in range(4):
            way.step()
        spent = time.perf_counter() - started
        synchronize()
    finally:
        Partition.__call__ = original  # type: ignore[method-assign]
    return {
        "host_ms": round(spent / 4 * 1e3, 4),
        "in_regions_ms": round(inside / 4 * 1e3, 4),
        "region_calls": calls / 4,
    }


def timed(ways: list[Way], tiny: bool) -> None:
    """Steps of all ways in turn, then GPU and host time of each."""
    samples: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(1 if tiny else _SETTLING // _CALLS):
        for way in ways:
            way.period()
    for number in range(2 if tiny else _ROUNDS):
        for way in ways if number % 2 else ways[::-1]:
            samples[way.name].append(way.period())
    for way in ways:
        way.row["period_ms"] = spread(samples[way.name])
        way.row["gpu_busy_ms"] = round(gpu_busy_ms(way.step, []), 4)
        way.row |= in_regions(way)


def judge(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Speed of blocks under pygraph beside the other ways; above 1 is faster."""
    ours = rows["blocks pygraph"]
    found: dict[str, float] = {}
    for name, row in rows.items():
        if "period_ms" in row and "period_ms" in ours and name != "blocks pygraph":
            ratio = row["period_ms"]["median"] / ours["period_ms"]["median"]
            found[f"beside {name}"] = round(ratio, 3)
    if "cold_s" in ours and "cold_s" in rows["blocks default"]:
        found["cold start / blocks default"] = round(
            ours["cold_s"] / rows["blocks default"]["cold_s"], 3
        )
    return found


def one(name: str, device: str, tiny: bool, lock: str) -> dict[str, Any]:
    """All ways of one row."""
    model, _, kind = name.rpartition("_")
    training = kind == "training"
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    case = MODELS[model](device, tiny, training)
    warm = torch.ones(8, device=device)
    compiler("default")(lambda x: x.sin() + 1)(warm)  # imports Inductor, starts its workers
    build_helper()
    expected = Way("eager", case, training).results()
    with turn(lock, False):
        ways = [begin(way, case, training, expected) for way in WAYS]
    with turn(lock, True):
        timed([way for way in ways if not way.error], tiny)
    rows = {way.name: way.row for way in ways}
    kept = ("name", "state", "reason", "graphs", "nodes", "served", "unserved", "graph_bytes")
    return {"ways": rows, "speed": judge(rows), "regions": known_regions(kept, 24)}


def main() -> None:
    """Measure one row and print it."""
    end_with_the_parent()
    parser = argparse.ArgumentParser(description=__doc__)
    add_row_options(parser)
    given = parser.parse_args()
    print(json.dumps(one(given.name, given.device, given.tiny, given.lock)))


if __name__ == "__main__":
    main()
