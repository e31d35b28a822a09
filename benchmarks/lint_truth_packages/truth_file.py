"""The truth table on disk: files stand there as modules, ``package.folder.name``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.lint_truth.versions import RESULTS, SETS

_ROWS = ("sites", "skipped_frames")
_LINES = ("ran", "traced", "in_modules")
_PARTS = "unevaluated"


def of_set(chosen: str) -> Path:
    """The committed truth table of a set: "current", "newer" or "packages"."""
    if chosen == "packages":
        return RESULTS / "lint_truth_packages_sites.json"
    return SETS[chosen].truth_file


def read(path: Path) -> dict[str, Any]:
    """A table, with files as ``package/folder/name.py``."""
    return _named(json.loads(path.read_text("utf-8")), _file)


def write(path: Path, table: dict[str, Any]) -> None:
    """Keep a table for `read`."""
    text = json.dumps(_named(table, _module), separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")


def _named(table: dict[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    rows = {key: [{**row, "file": name(row["file"])} for row in table[key]] for key in _ROWS}
    by_file = [*_LINES, *([_PARTS] if _PARTS in table else [])]
    lines = {key: {name(file): said for file, said in table[key].items()} for key in by_file}
    return {**table, **rows, **lines}


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _file(module: str) -> str:
    return f"{module.replace('.', '/')}.py"
