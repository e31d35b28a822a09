"""Reports: one output format a file, each with a function ``render(report) -> str``.

A format is named after its file: ``json_lines.py`` is ``json-lines``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TextIO

from pygraph_lint.files import notebooks
from pygraph_lint.findings import Finding, Location
from pygraph_lint.rules.catalogue import Rule

FORMATS = tuple(
    sorted(
        path.stem.replace("_", "-")
        for path in Path(__file__).parent.glob("*.py")
        if path.name != "__init__.py"
    )
)
# Formats that people read: a summary line follows the findings.
FOR_READING = ("concise", "full", "grouped")

_SAID = {
    ("compile", "break"): "graph break under torch.compile",
    ("compile", "skipped"): "torch.compile skips the whole frame",
    ("fullgraph", "error"): "error under fullgraph=True",
    ("cudagraph", "not capturable"): "cannot be captured in a CUDA graph",
    ("cudagraph", "stale"): "a replayed CUDA graph does not do this again",
    ("cudagraph", "slow"): "runs outside of a CUDA graph, between two parts of it",
    ("sync", "yes"): "the host waits for the device",
}


@dataclass(frozen=True)
class Report:
    """The findings to show, in order; their rules; how to get the text of a file; and whether the
    output is a terminal that shows colors.
    """

    findings: Sequence[Finding]
    rules: Mapping[str, Rule]
    text: Callable[[Path], str]
    color: bool = False


def render(name: str, report: Report) -> str:
    """The report in the format ``name``, one of ``FORMATS``."""
    module = importlib.import_module(f"pygraph_lint.report.{name.replace('-', '_')}")
    rendered: str = module.render(report)
    return rendered


def colored(stream: TextIO, wanted: str = "auto") -> bool:
    """Whether to color: ``wanted`` is ``always``, ``never``, or ``auto``, which asks ``NO_COLOR``
    and ``FORCE_COLOR``, and then whether the stream is a terminal.
    """
    if wanted != "auto":
        return wanted == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def count(number: int, what: str) -> str:
    """``1 file``, ``2 files``, ``2 fixes``."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}{'es' if what.endswith('x') else 's'}"


def shown_path(filename: str) -> str:
    """The path as a user would type it: relative where the file lies below the current folder."""
    folder = f"{Path.cwd()}{os.sep}"
    return filename.removeprefix(folder)


def consequences_in_words(consequences: Mapping[str, str]) -> list[str]:
    """What follows from a finding, as sentence fragments; nothing for what stays all right."""
    said = [_SAID[key, value] for key, value in consequences.items() if (key, value) in _SAID]
    if (consequences.get("compile"), consequences.get("fullgraph")) == ("break", "ok"):
        said[0] += " (with fullgraph=True it is no error: torch then keeps the value in the graph)"
    return said


def in_words(conditions: Sequence[str]) -> str:
    """Conditions that all have to hold, each as code."""
    return " and ".join(f"`{condition}`" for condition in conditions)


def in_cells(findings: Sequence[Finding], data: Callable[[Path], bytes]) -> list[Finding]:
    """The findings, those in notebooks with places in cells; ``data`` gives a notebook's bytes."""
    places = cache(lambda filename: notebooks.Places(data(Path(filename))))
    return [
        _in_cells(finding, places(finding.filename))
        if finding.filename.endswith(notebooks.SUFFIX) and finding.code != "PG002"
        else finding
        for finding in findings
    ]


def _in_cells(finding: Finding, places: notebooks.Places) -> Finding:
    fix = finding.fix
    if fix is not None:
        edits = (
            replace(edit, location=places(edit.location), end_location=places(edit.end_location))
            for edit in fix.edits
        )
        fix = replace(fix, edits=tuple(edits))
    start, end = places(finding.location), places(finding.end_location)
    return replace(finding, location=start, end_location=end, fix=fix)


def line_and_column(location: Location) -> dict[str, int]:
    """A place in the file, for formats that know no cells: in a notebook there is no column."""
    if location.cell is not None:
        return {"line": location.file_line}
    return {"line": location.row, "column": location.column}


def message(finding: Finding) -> str:
    """The message, for formats that know no cells: with the place in the cell of a notebook."""
    if finding.location.cell is None:
        return finding.message
    return f"{finding.location}: {finding.message}"


def is_error(finding: Finding) -> bool:
    """Whether the file could not be checked at all."""
    return finding.code in ("PG001", "PG002")
