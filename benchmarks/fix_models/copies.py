"""Copies of an installed package, as it is and fixed; what fixing took and changed."""

from __future__ import annotations

import difflib
import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PACKAGE = "transformers"
BEFORE = "before"
#: Copy -> options of ``check`` that make it.
VARIANTS: dict[str, list[str]] = {
    "safe": ["--fix"],
    "closed": ["--fix"],
    "unsafe": ["--fix", "--unsafe-fixes"],
}


def installed() -> Path:
    """The folder of the installed package. Raises ModuleNotFoundError if there is none."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{PACKAGE} is not installed")
    return Path(spec.submodule_search_locations[0])


def make(folder: Path, variant: str) -> None:
    """A fresh copy ``folder/variant/PACKAGE``, fixed as the variant says; its times beside it."""
    copy = folder / variant / PACKAGE
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(installed(), copy, ignore=shutil.ignore_patterns("__pycache__"))
    settings = folder / variant / "settings.toml"
    settings.write_text(f"assume-closed = {str(variant == 'closed').lower()}\n")
    seconds = _check(copy, [*VARIANTS.get(variant, []), "--config", str(settings)])
    (folder / variant / "seconds.json").write_text(json.dumps(seconds))
    print(f"{variant}: {seconds}", flush=True)


def _check(copy: Path, options: list[str]) -> dict[str, float]:
    """Seconds (wall and processor) of the linter, one process, no cache. Raises if it fails."""
    command = [sys.executable, "-m", "pygraph_lint", "check", str(copy), *options]
    command += ["--no-cache", "--jobs", "1", "--exit-zero", "--quiet", "--no-respect-gitignore"]
    command += ["--exclude", "nothing"]
    started, used = time.perf_counter(), _processor_seconds()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, processor = time.perf_counter() - started, _processor_seconds() - used
    return {"wall": round(wall, 1), "processor": round(processor, 1)}


def _processor_seconds() -> float:
    """Of all ended child processes: another load on the machine does not change it."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def times(folder: Path) -> dict[str, Any]:
    """Seconds of ``check`` ("before") and of each way to fix, and their ratios to ``check``."""
    found: dict[str, Any] = {}
    for variant in (BEFORE, *VARIANTS):
        path = folder / variant / "seconds.json"
        if path.exists():
            found[variant] = json.loads(path.read_text())
    base = found.get(BEFORE, {})
    for variant in set(VARIANTS) & set(found):
        for unit, seconds in base.items():
            found[variant][f"{unit}_times_check"] = round(found[variant][unit] / seconds, 2)
    return found


def changed_lines(folder: Path, variant: str) -> dict[str, list[int]]:
    """[lines added, lines removed] of each changed file, "package/path.py"."""
    changed: dict[str, list[int]] = {}
    for path in sorted((folder / variant / PACKAGE).rglob("*.py")):
        name = path.relative_to(folder / variant)
        old, new = (folder / BEFORE / name).read_text("utf-8"), path.read_text("utf-8")
        if old != new:
            changed[name.as_posix()] = count_changes(old, new)
    return changed


def count_changes(old: str, new: str) -> list[int]:
    """[lines added, lines removed] between two texts."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    signs = [line[:1] for number, line in enumerate(lines) if number >= 2]
    return [signs.count("+"), signs.count("-")]
