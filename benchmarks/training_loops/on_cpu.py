"""Check the marks of the loops of this repository on a pretended CUDA device.

    python -m benchmarks.training_loops.on_cpu [--packages FOLDER] [--out FILE]

Runs every loop of `loops/` with the instrument of `benchmarks/lint_truth/ghost.py` and compares
the lines where the host would wait or copy in every step with the marks; with `--packages`, where
`fetch` put them, also the loops of packages that have a driver. Ends with 1 if a mark of `loops/`
was not seen, or if an unmarked line waited in every step. Marks of packages may be in branches
that the small run does not take.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import torch
from torch.utils.data import DataLoader

from benchmarks.lint_truth import ghost
from benchmarks.lint_truth.ghost_patches import unseen_recorded
from benchmarks.training_loops.drivers import run_all
from benchmarks.training_loops.marks import load
from benchmarks.training_loops.observe import Watch, compare, observe, report, summary

#: Events of the pretended device for which the host waits.
WAITS = ("sync", "d2h", "h2d")

#: torch's file that groups gradients by device in C++, and moves their norm there.
GROUPING = str(Path("nn", "utils", "clip_grad.py"))


def _groups_by_device(frame: FrameType | None) -> bool:
    """Whether the event is in code that groups tensors by the device they really are on."""
    while frame is not None:
        if frame.f_code.co_filename.endswith(GROUPING):
            return True
        frame = frame.f_back
    return False


class _Marks(ghost.Marks):
    """Marks that hand their events on to a watch."""

    watch: Watch

    def record(self, kind: str, what: str) -> None:
        if not self.quiet and kind in WAITS and not _groups_by_device(sys._getframe(1)):
            self.watch.record()


class _Stream:
    """A CUDA stream that does nothing."""

    def __init__(self, *args: Any) -> None: ...

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def wait_stream(self, other: _Stream) -> None: ...


def _unpinned_init(self: DataLoader, *args: Any, **kwargs: Any) -> None:
    kwargs.pop("pin_memory", None)
    _LOADER_INIT(self, *args, **kwargs)


_LOADER_INIT = DataLoader.__init__


@contextlib.contextmanager
def _pretended_cuda(watch: Watch) -> Iterator[None]:
    """Answer as torch with CUDA would, where a loop asks."""
    patches = [
        mock.patch.object(torch.cuda, "is_available", lambda: True),
        mock.patch.object(torch.cuda, "synchronize", lambda *a: watch.record()),
        mock.patch.object(torch.cuda, "empty_cache", lambda: watch.record()),
        mock.patch.object(torch.cuda, "is_bf16_supported", lambda: True),
        mock.patch.object(torch.cuda, "Stream", _Stream),
        mock.patch.object(torch.cuda, "stream", lambda stream: stream),
        mock.patch.object(torch.cuda, "current_stream", _Stream),
        mock.patch.object(torch.Tensor, "pin_memory", lambda self, *a: self),
        mock.patch.object(torch.Tensor, "record_stream", lambda self, stream: None),
        mock.patch.object(torch, "compile", lambda model=None, **options: model),
        mock.patch.object(DataLoader, "__init__", _unpinned_init),
    ]
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Record for `watch` what happens on the pretended device."""
    marks = _Marks()
    marks.watch = watch
    with (
        _pretended_cuda(watch),
        unseen_recorded(marks.made_on_host),
        ghost.GhostFunctions(marks),
        ghost.GhostOperators(marks),
    ):
        yield


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--packages", type=Path, help="folder with the fetched packages")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    loops = load()
    own = {x.name: compare(x, observe(x, watching)) for x in loops if x.package is None}
    result: dict[str, Any] = {"torch": torch.__version__, "own": report(own)}
    bad = result["own"]["not_seen"] + result["own"]["unmarked"]
    print(summary(result["own"]))
    if arguments.packages is not None:
        packaged, not_run = run_all(loops, arguments.packages.resolve(), watching)
        result["packages"] = {**report(packaged), "not_run": not_run}
        bad += result["packages"]["unmarked"]
        print(summary(result["packages"]))
        for driver, reason in not_run.items():
            print(f"not run: {driver}: {reason}")
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
