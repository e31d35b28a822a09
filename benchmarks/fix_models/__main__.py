"""Copies transformers, fixes the copies, runs models of each, and compares.

Steps: ``fix`` makes the copies ``before``, ``safe`` and ``unsafe`` in a folder; ``run VARIANT``
runs the models of one copy; ``report`` writes the table as JSON. ``all`` does everything.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.fix_models.compare import read, table
from benchmarks.fix_models.models import NAMES

VARIANTS = {"before": None, "safe": [], "unsafe": ["--unsafe-fixes"]}
PACKAGE = "transformers"
ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(tempfile.gettempdir()) / "pygraph-fix-models"


def _copy_and_fix(folder: Path) -> None:
    spec = importlib.util.find_spec(PACKAGE)
    assert spec is not None and spec.submodule_search_locations
    installed = Path(spec.submodule_search_locations[0])
    seconds: dict[str, float] = {}
    for variant, options in VARIANTS.items():
        copy = folder / variant / PACKAGE
        shutil.rmtree(folder / variant, ignore_errors=True)
        shutil.copytree(installed, copy, ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", "pygraph_lint", "check", str(copy), "--no-cache"]
        command += ["--exit-zero", *(["--fix", *options] if options is not None else [])]
        started = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        seconds[variant] = round(time.perf_counter() - started, 1)
        print(variant, seconds[variant], "s", done.stdout.strip().splitlines()[-1:], flush=True)
    (folder / "seconds.json").write_text(json.dumps(seconds))


def _run(arguments: argparse.Namespace, variant: str) -> None:
    """Run the models of one copy that are not done yet; of a fixed one, those that broke before."""
    sys.path.insert(0, str(arguments.folder / variant))
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    torch.set_num_threads(1)
    from benchmarks.lint_truth import packages, preload
    from benchmarks.lint_truth.catalogue import catalogue
    from benchmarks.lint_truth.pool import run_all

    packages.declare_vision_operators()
    preload.load()
    from benchmarks.fix_models.worker import look

    where = arguments.folder / variant
    chosen = set(arguments.models or NAMES)
    done = read(where)
    broken = {key for key, row in read(arguments.folder / "before").items() if row.get("breaks")}
    jobs = [
        (f"{entry.name}:{mode}", functools.partial(look, entry, mode, where))
        for entry in catalogue()
        if entry.name in chosen
        for mode in entry.modes
        if (entry.name, mode) not in done and (variant == "before" or (entry.name, mode) in broken)
    ]
    with (where / "records.jsonl").open("a") as stream:
        for number, records in enumerate(run_all(jobs, arguments.workers, 180.0), start=1):
            for record in records:
                stream.write(json.dumps(record) + "\n")
                said = record.get("error") or len(record.get("breaks", []))
                label = f"{record.get('model', record.get('label'))}:{record.get('mode', '')}"
                print(f"[{number}/{len(jobs)}] {variant} {label} {said}", flush=True)
            stream.flush()


def _changed_lines(folder: Path, variant: str) -> dict[str, int]:
    """Lines added and removed, by file."""
    changed: dict[str, int] = {}
    for path in sorted((folder / variant / PACKAGE).rglob("*.py")):
        name = path.relative_to(folder / variant)
        old, new = (folder / "before" / name).read_text("utf-8"), path.read_text("utf-8")
        if old != new:
            lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
            changed[name.as_posix()] = sum(
                line[0] in "+-" and line[:3] not in ("+++", "---") for line in lines
            )
    return changed


def _report(arguments: argparse.Namespace) -> None:
    result: dict[str, Any] = {
        "environment": {
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in ("torch", PACKAGE)},
        },
        "lines_changed": {
            variant: _changed_lines(arguments.folder, variant) for variant in ("safe", "unsafe")
        },
        **table(arguments.folder),
    }
    seconds = arguments.folder / "seconds.json"
    if seconds.exists():
        result["seconds"] = json.loads(seconds.read_text())
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    for mode, sums in result["sums"].items():
        for variant in ("safe", "unsafe"):
            row = {key: value for key, value in sums[variant].items() if key != "left"}
            print(mode, variant, f"{sums['models']} models", row)


def main() -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=["fix", "run", "report", "all"])
    parser.add_argument("variant", nargs="?", choices=list(VARIANTS))
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the copies are made")
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--out", type=Path, default=ROOT / "benchmarks" / "results" / "fix_models.json"
    )
    arguments = parser.parse_args()
    if arguments.step in ("fix", "all"):
        _copy_and_fix(arguments.folder)
    if arguments.step == "run":
        _run(arguments, arguments.variant)
    if arguments.step == "all":
        for variant in VARIANTS:
            command = [sys.executable, "-m", "benchmarks.fix_models", "run", variant]
            given = ["--folder", str(arguments.folder), "--workers", str(arguments.workers)]
            subprocess.run([*command, *given, "--models", *arguments.models], check=True, cwd=ROOT)
    if arguments.step in ("report", "all"):
        _report(arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
