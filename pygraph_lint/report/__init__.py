"""Reports: one output format a file, each with a function ``render(report) -> str``.

A format is named after its file: ``json_lines.py`` is ``json-lines``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from pygraph_lint.files import notebooks
from pygraph_lint.findings import Edit, Finding, Fix
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
    ("cudagraph", "stale"): "a replayed CUDA graph uses stale values",
    ("cudagraph", "slow"): "slows a CUDA graph down",
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


def shown_path(filename: str) -> str:
    """The path as a user would type it: relative where the file lies below the current folder."""
    folder = f"{Path.cwd()}{os.sep}"
    return filename.removeprefix(folder)


def consequences_in_words(consequences: Mapping[str, str]) -> list[str]:
    """What follows from a finding, as sentence fragments; nothing for what stays all right."""
    return [_SAID[key, value] for key, value in consequences.items() if (key, value) in _SAID]


def in_cells(findings: Sequence[Finding], text: Callable[[Path], str]) -> list[Finding]:
    """The findings, those in notebooks with places in cells."""
    programs: dict[str, str] = {}
    found = []
    for finding in findings:
        if finding.filename.endswith(notebooks.SUFFIX) and finding.code != "PG002":
            if finding.filename not in programs:
                programs[finding.filename] = text(Path(finding.filename))
            program = programs[finding.filename]
            finding = replace(
                finding,
                location=notebooks.placed(program, finding.location),
                end_location=notebooks.placed(program, finding.end_location),
                fix=finding.fix and _fix_in_cells(finding.fix, program),
            )
        found.append(finding)
    return found


def _fix_in_cells(fix: Fix, program: str) -> Fix:
    edits = tuple(
        Edit(
            edit.content,
            notebooks.placed(program, edit.location),
            notebooks.placed(program, edit.end_location),
        )
        for edit in fix.edits
    )
    return replace(fix, edits=edits)


def message(finding: Finding) -> str:
    """The message, for formats that know rows and columns only: with the cell of a notebook."""
    if finding.location.cell is None:
        return finding.message
    return f"{finding.location}: {finding.message}"


def is_error(finding: Finding) -> bool:
    """Whether the file could not be checked at all."""
    return finding.code in ("PG001", "PG002")


def url(finding: Finding, rules: Mapping[str, Rule]) -> str | None:
    """Where the finding's rule is explained."""
    rule = rules.get(finding.code)
    return rule.url if rule is not None else None
