"""Reviewdog's diagnostic format, with safe fixes as suggestions.

Source: reviewdog, ``proto/rdf/jsonschema/DiagnosticResult.json``.
"""

from __future__ import annotations

import json
from typing import Any

from pygraph_lint.findings import Finding, Location
from pygraph_lint.report import Report, is_error, message, shown_path, url


def _position(location: Location) -> dict[str, int]:
    return {"line": location.row, "column": location.column}


def _range(start: Location, end: Location) -> dict[str, dict[str, int]]:
    return {"start": _position(start), "end": _position(end)}


def _diagnostic(finding: Finding, report: Report) -> dict[str, Any]:
    code: dict[str, str] = {"value": finding.code}
    page = url(finding, report.rules)
    if page is not None:
        code["url"] = page
    diagnostic: dict[str, Any] = {
        "message": message(finding),
        "location": {
            "path": shown_path(finding.filename),
            "range": _range(finding.location, finding.end_location),
        },
        "severity": "ERROR" if is_error(finding) else "WARNING",
        "code": code,
    }
    fix = finding.fix
    if fix is not None and fix.applicability == "safe" and finding.location.cell is None:
        diagnostic["suggestions"] = [
            {"range": _range(edit.location, edit.end_location), "text": edit.content}
            for edit in fix.edits
        ]
    return diagnostic


def render(report: Report) -> str:
    """The whole report."""
    document = {
        "source": {"name": "pygraph-lint"},
        "severity": "WARNING",
        "diagnostics": [_diagnostic(finding, report) for finding in report.findings],
    }
    return json.dumps(document, indent=2) + "\n"
