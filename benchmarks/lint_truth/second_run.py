"""What the measurements share that run a truth table's programs once more and add to it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.lint_truth_packages import truth_file


def started(description: str | None) -> argparse.Namespace:
    """The command line, and a process that is ready to run programs of the set."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--set", choices=("current", "newer", "packages"), required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=120.0)
    arguments = parser.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    if arguments.set == "packages":
        from benchmarks.lint_truth import packages
        from benchmarks.lint_truth_packages.catalogue import PACKAGES

        packages.measure(PACKAGES.values())
    import torch

    torch.set_num_threads(1)
    return arguments


def reader(chosen: str) -> Callable[[str], str]:
    """What gives the source of a set's file."""
    if chosen == "packages":
        from benchmarks.lint_truth_packages.__main__ import read_source
    else:
        from benchmarks.lint_truth.__main__ import read_source
    return read_source


def read(chosen: str) -> tuple[Path, dict[str, Any]]:
    """A set's truth table, and where it is."""
    path = truth_file.of_set(chosen)
    return path, truth_file.read(path) if chosen == "packages" else json.loads(path.read_text())


def write(chosen: str, path: Path, truth: dict[str, Any]) -> None:
    """Write a set's truth table."""
    if chosen == "packages":
        truth_file.write(path, truth)
    else:
        path.write_text(json.dumps(truth, separators=(",", ":")) + "\n")
