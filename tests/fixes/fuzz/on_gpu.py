"""Programs and their fixed versions on a GPU: values, dtypes, devices, gradients, random streams.

Two steps, because fixing needs the linter and running needs torch and a GPU alone:

make fuzz-pairs ARGS="--rewrites factory_device loop_copy --count 300"
make fuzz-fixes-gpu PYTHON=python3
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from benchmarks import slices
from tests.fixes.equivalence import module_of
from tests.fixes.fuzz.comparing import (
    INPUTS,
    Promise,
    Run,
    as_promised,
    called,
    changed_blocks,
    executed,
    top_lines,
)
from tests.fixes.fuzz.situations import arguments

# A failed check stops the GPU for the whole process: what the original program refuses is not
# given to the fixed one.
_ASYNC = "_assert_async"


class Pair(NamedTuple):
    """A program before and after fixes. ``promise`` is the name of a :class:`Promise`."""

    rewrite: str
    seed: int
    mode: str
    rewrites: list[str]
    promise: str
    before: str
    after: str


def compare(pair: Pair, device: str) -> tuple[str, str]:
    """(what came of it, the first difference): ``same``, ``different``, ``not run`` where a changed
    line did not run or the fixed program may not be called, ``unsteady`` where the original differs
    from itself.
    """
    old, new = module_of(pair.before), module_of(pair.after)
    blocks = changed_blocks(pair.before, pair.after)
    lines = set(top_lines(pair.after))
    compared = 0
    try:
        for number in range(INPUTS):
            given = _placed(arguments(pair.seed * INPUTS + number, floating=True), device)
            first = _called(old, given, device)
            if first.error is not None and _ASYNC in pair.after:
                continue
            second, ran = executed(new, lambda given=given: _called(new, given, device))
            lines |= ran
            compared += 1
            problem = _difference(first, second, Promise[pair.promise])
            if problem:
                again = _difference(first, _called(old, given, device), Promise.SAFE)
                return ("unsteady", "") if again else ("different", problem)
    finally:
        for module in (old, new):
            sys.modules.pop(module.__name__, None)
    ran_all = compared and all(lines.intersection(block) for block in blocks if block)
    return ("same" if ran_all else "not run"), ""


def _placed(given: tuple[Any, ...], device: str) -> tuple[Any, ...]:
    def placed(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        return item.detach().to(device).requires_grad_(item.requires_grad)

    return tuple(tree_map(placed, given))


def _called(module: Any, given: tuple[Any, ...], device: str) -> Run:
    """One call of the model on the device, with the state of the GPU's generator after it."""
    if device == "cuda":
        torch.cuda.manual_seed(1)
    found = called(module, given, lambda model: model.to(device))
    if device == "cuda":
        torch.cuda.synchronize()
        found.drawn += (torch.cuda.get_rng_state().tolist(),)
    return found


def _difference(first: Run, second: Run, promise: Promise) -> str:
    """What differs against the promise; empty where nothing does."""
    try:
        as_promised(first, second, promise)
    except AssertionError as problem:
        return (str(problem) or "outputs differ")[:300]
    return ""


def compare_many(pairs: list[Pair], device: str, seconds: float) -> list[tuple[str, str]]:
    """What came of the first of these; ends early when the time is over, or after a program that
    stops the GPU for its process (an index out of bounds): `stopped the GPU`.
    """
    end = time.monotonic() + seconds
    found: list[tuple[str, str]] = []
    for pair in pairs:
        if time.monotonic() > end:
            break
        try:
            outcome = compare(pair, device)
            torch.ones((), device=device).item()
        except RuntimeError:
            return [*found, ("stopped the GPU", "")]
        found.append(outcome)
    return found


def compare_all(
    pairs: list[Pair], device: str, seconds: float, processes: int
) -> Iterator[tuple[Pair, str, str]]:
    """What came of each pair that there was time for."""
    end = time.monotonic() + seconds
    spawn = multiprocessing.get_context("spawn")
    # One task a process: where the GPU was stopped, the next needs another.
    with ProcessPoolExecutor(processes, spawn, max_tasks_per_child=1) as pool:

        def submitted(part: list[Pair]) -> Future[list[tuple[str, str]]]:
            return pool.submit(compare_many, part, device, end - time.monotonic())

        running = {submitted(part): part for k in range(processes) if (part := pairs[k::processes])}
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                part, found = running.pop(future), future.result()
                yield from ((pair, *each) for pair, each in zip(part, found, strict=False))
                left = part[len(found) :]
                if left and found and time.monotonic() < end:
                    running[submitted(left)] = left


def main() -> int:
    """Compare all pairs of a file, and write the counts; 1 if safe fixes make a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after these")
    given = parser.parse_args()
    pairs = [Pair._make(each) for each in json.loads(given.pairs.read_text())]
    counts: dict[str, Counter[str]] = {}
    differences = []
    for one, came, problem in compare_all(pairs, given.device, given.seconds, given.processes):
        counts.setdefault(f"{one.rewrite} {one.mode}", Counter())[came] += 1
        if problem:
            differences.append(
                {"rewrite": one.rewrite, "seed": one.seed, "fixes": one.mode, "problem": problem}
            )
    totals = sum(counts.values(), Counter[str]())
    result = {
        **slices.stamp(),
        "programs": len(pairs),
        "totals": totals,
        "counts": dict(sorted(counts.items())),
        "differences": differences,
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({"totals": totals, "differences": differences[:20]}, indent=1))
    return 1 if any(each["fixes"] != "unsafe" for each in differences) else 0


if __name__ == "__main__":
    sys.exit(main())
