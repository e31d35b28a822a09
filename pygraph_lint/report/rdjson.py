"""Reviewdog's diagnostic format, with safe fixes as suggestions. Its columns count bytes of UTF-8.

Source: reviewdog, ``proto/rdf/reviewdog.proto`` and ``jsonschema/DiagnosticResult.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pygraph_lint.files.sources import split_lines
from pygraph_lint.findings import Finding, Location
from pygraph_lint.report import Report, is_error, line_and_column, message, shown_path


def _position(location: Location, lines: Sequence[str]) -> dict[str, int]:
    position = line_and_column(location)
    if location.cell is None and location.row <= len(lines):
        before = lines[location.row - 1][: location.column - 1]
        position["column"] = len(before.encode(errors="replace")) + 1
    return position


def _range(start: Location, end: Location, lines: Sequence[str]) -> dict[str, dict[str, int]]:
    return {"start": _position(start, lines), "end": _position(end, lines)}


def _diagnostic(finding: Finding, lines: Sequence[str]) -> dict[str, Any]:
    diagnostic: dict[str, Any] = {
        "message": message(finding),
        "location": {
            "path": shown_path(finding.filename),
            "range": _range(finding.location, finding.end_location, lines),
        },
        "severity": "ERROR" if is_error(finding) else "WARNING",
        "code": {"value": finding.code},
    }
    fix = finding.fix
    if fix is not None and fix.applicability == "safe" and finding.location.cell is None:
        diagnostic["suggestions"] = [
            {"range": _range(edit.location, edit.end_location, lines), "text": edit.content}
            for edit in fix.edits
        ]
    return diagnostic


def render(report: Report) -> str:
    """The whole report."""
    lines = cache(lambda name: split_lines(report.text(Path(name))))
    document = {
        "source": {"name": "pygraph-lint"},
        "severity": "WARNING",
        "diagnostics": [_diagnostic(found, lines(found.filename)) for found in report.findings],
    }
    return json.dumps(document, indent=2) + "\n"
