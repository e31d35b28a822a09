"""Writes a trace: what ran, what was seen, and how it was seen."""

from __future__ import annotations

import ast
import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import pygraph_rt
from pygraph_rt.files import write_whole
from pygraph_rt.trace.model import VERSION, Compilation, Event, Region

_SPANS = (ast.stmt, ast.ExceptHandler)


@functools.cache
def _source(file: str) -> bytes | None:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError):
        return None


@functools.cache
def _ends(file: str) -> dict[int, int]:
    """The last line of the innermost statement at each line; of a compound one, of its header."""
    source = _source(file)
    try:
        tree = ast.parse(source or b"")
    except (SyntaxError, ValueError):
        return {}
    ends: dict[int, int] = {}
    for node in ast.walk(tree):  # outer statements come first, so inner ones overwrite them
        if isinstance(node, _SPANS):
            body = getattr(node, "body", None)
            last = _first_line(body[0]) - 1 if isinstance(body, list) and body else node.end_lineno
            last = max(node.lineno, last or node.lineno)
            ends.update(dict.fromkeys(range(_first_line(node), last + 1), last))
    return ends


def _first_line(node: ast.AST) -> int:
    """The line of a statement, or of its first decorator."""
    lines = [part.lineno for part in (node, *getattr(node, "decorator_list", ()))]
    return int(min(lines))


def end_line(file: str, line: int) -> int:
    """The last line of the statement at a line; the line itself where the source is not there."""
    return _ends(file).get(line, line)


def _file_row(file: str, folder: str) -> dict[str, Any]:
    source = _source(file)
    inside = file.startswith(folder + os.sep)
    return {
        "sha256": hashlib.sha256(source).hexdigest() if source is not None else None,
        "lines": len(source.splitlines()) if source is not None else None,
        "relative": file[len(folder) + 1 :] if inside else None,
    }


def machine() -> dict[str, Any]:
    """The versions and the device that the trace was made with."""
    gpu = torch.cuda.is_available()
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": torch.cuda.get_device_name() if gpu else "cpu",
        "rank": _number("RANK"),
        "world_size": _number("WORLD_SIZE"),
    }


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isdigit() else None


def document(
    run: dict[str, Any],
    detectors: list[dict[str, Any]],
    events: Iterable[Event],
    regions: Iterable[Region],
    compilations: Iterable[Compilation],
    reached: dict[str, Any],
) -> dict[str, Any]:
    """The whole trace. `run` has directory, command, started, duration_s, exit and notes."""
    folder = run["directory"]
    rows = []
    for number, event in enumerate(sorted(events, key=lambda e: e.times[0][0] if e.times else 0.0)):
        rows.append(event.to_dict(f"e{number + 1}", end_line(event.place.file, event.place.line)))
    region_rows = [region.to_dict() for region in regions]
    files = {row["file"] for row in rows} | {row["file"] for row in region_rows}
    files |= set(reached["files"])
    files |= {frame["file"] for row in rows for frame in row["stack"]}
    return {
        "version": VERSION,
        "tool": {"name": "pygraph-rt", "version": pygraph_rt.__version__},
        **machine(),
        **run,
        "detectors": detectors,
        "files": {file: _file_row(file, folder) for file in sorted(files)},
        "events": rows,
        "regions": region_rows,
        "compilations": [one.to_dict() for one in compilations],
        "reached": reached,
    }


def write(trace: dict[str, Any], path: Path) -> None:
    """Write a trace whole or not at all."""
    write_whole(path, json.dumps(trace, indent=1) + "\n")
