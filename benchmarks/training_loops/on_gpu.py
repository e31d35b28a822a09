"""Check the marks of the loops of this repository on a GPU, by PyTorch's own sync warnings.

    python -m benchmarks.training_loops.on_gpu [--out FILE]

Needs a CUDA device and torch (and numpy for loops that use it), nothing of the linter. Runs every
loop of `loops/` under `torch.cuda.set_sync_debug_mode("warn")` and compares the lines that
synchronise in every step with the marks. `torch.cuda.synchronize` and `empty_cache` do not warn;
they are seen by a wrapper. Ends with 1 if a mark was not seen, or if an unmarked line
synchronised in every step.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.training_loops.marks import load
from benchmarks.training_loops.observe import Comparison, Watch, compare, observe, report, summary

SYNC_WARNING = "called a synchronizing CUDA operation"


def _wrapped(watch: Watch, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        watch.record()
        return original(*args, **kwargs)

    return call


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Record for `watch` each sync warning, and calls that wait without one."""

    def show(message: Any, *rest: Any, **named: Any) -> None:
        if SYNC_WARNING in str(message):
            watch.record()

    synchronize = _wrapped(watch, torch.cuda.synchronize)
    empty_cache = _wrapped(watch, torch.cuda.empty_cache)
    with (
        warnings.catch_warnings(),
        mock.patch.object(torch.cuda, "synchronize", synchronize),
        mock.patch.object(torch.cuda, "empty_cache", empty_cache),
        # Compiling is not what is looked at, and it synchronises.
        mock.patch.object(torch, "compile", lambda model=None, **options: model),
    ):
        warnings.simplefilter("always")
        warnings.showwarning = show
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("there is no CUDA device", file=sys.stderr)
        return 2
    comparisons: dict[str, Comparison] = {}
    failed: dict[str, str] = {}
    for loop in load():
        if loop.package is not None:
            continue
        try:
            comparisons[loop.name] = compare(loop, observe(loop, watching))
        except Exception as error:
            failed[loop.name] = f"{type(error).__name__}: {error}"[:300]
    environment = {"torch": torch.__version__, "device": torch.cuda.get_device_name(0)}
    result = {**environment, **report(comparisons), "failed": failed}
    print(summary(result))
    for name, reason in failed.items():
        print(f"failed: {name}: {reason}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["not_seen"] or result["unmarked"] or failed else 0


if __name__ == "__main__":
    sys.exit(main())
