"""The truth table on disk: files stand there as modules, ``package.folder.name``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

_ROWS = ("sites", "skipped_frames")
_LINES = ("ran", "traced", "in_modules")


def read(path: Path) -> dict[str, Any]:
    """A table, with files as ``package/folder/name.py``."""
    return _named(json.loads(path.read_text("utf-8")), _file)


def write(path: Path, table: dict[str, Any]) -> None:
    """Keep a table for `read`."""
    text = json.dumps(_named(table, _module), separators=(",", ":"))
    path.write_text(text + "\n", encoding="utf-8")


def _named(table: dict[str, Any], name: Callable[[str], str]) -> dict[str, Any]:
    rows = {key: [{**row, "file": name(row["file"])} for row in table[key]] for key in _ROWS}
    lines = {key: {name(file): said for file, said in table[key].items()} for key in _LINES}
    return {**table, **rows, **lines}


def _module(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".")


def _file(module: str) -> str:
    return f"{module.replace('.', '/')}.py"
