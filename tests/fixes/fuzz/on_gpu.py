"""Programs and their fixed versions on a GPU: values, dtypes, devices, gradients, random streams.

Two steps, because fixing needs the linter and running needs torch and a GPU alone:

make fuzz-pairs ARGS="--rewrites factory_device loop_copy --count 300"
make fuzz-fixes-gpu PYTHON=python3
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from benchmarks import slices
from tests.fixes.equivalence import module_of
from tests.fixes.fuzz.comparing import INPUTS, Promise, Run, called, changed_blocks, executed, same
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
    lines = {n for n, text in enumerate(pair.after.splitlines(), 1) if not text.startswith(" ")}
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
        if promise not in (Promise.RUNS, Promise.CLOSE):
            same(first, second)
        elif first.error is None:
            assert second.error is None, f"raises {second.error}"
    except AssertionError as problem:
        return (str(problem) or "outputs differ")[:300]
    return ""


def main() -> int:
    """Compare all pairs of a file, and write the counts; 1 if safe fixes make a difference."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after these")
    given = parser.parse_args()
    started = time.monotonic()
    counts: dict[str, Counter[str]] = {}
    differences = []
    for one in map(Pair._make, json.loads(given.pairs.read_text())):
        if time.monotonic() - started > given.seconds:
            break
        came, problem = compare(one, given.device)
        counts.setdefault(f"{one.rewrite} {one.mode}", Counter())[came] += 1
        if problem:
            differences.append(
                {"rewrite": one.rewrite, "seed": one.seed, "fixes": one.mode, "problem": problem}
            )
    result = {**slices.stamp(), "counts": counts, "differences": differences}
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    return 1 if any(each["fixes"] != "unsafe" for each in differences) else 0


if __name__ == "__main__":
    sys.exit(main())
