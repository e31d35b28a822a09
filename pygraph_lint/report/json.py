"""An array of objects with the keys that ruff's JSON has, and region, evidence and consequences."""

from __future__ import annotations

import json
from typing import Any

from pygraph_lint.findings import Finding, Fix, Location
from pygraph_lint.report import Report


def place(location: Location) -> dict[str, int]:
    """A place: 1-based row and column, in characters."""
    return {"row": location.row, "column": location.column}


def _fix(fix: Fix | None) -> dict[str, Any] | None:
    """The fix; None where nothing can be applied."""
    if fix is None or fix.applicability == "declined":
        return None
    return {
        "applicability": fix.applicability,
        "message": fix.message,
        "reason": fix.reason or None,
        "edits": [
            {
                "content": edit.content,
                "location": place(edit.location),
                "end_location": place(edit.end_location),
            }
            for edit in fix.edits
        ],
    }


def _declined(fix: Fix | None) -> str | None:
    """Why no rewrite is offered; None where one is, or where none serves the rule."""
    return fix.reason or None if fix is not None and fix.applicability == "declined" else None


def as_dict(finding: Finding, report: Report) -> dict[str, Any]:
    """One finding."""
    region = finding.region
    rule = report.rules.get(finding.code)
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": finding.filename,
        "cell": finding.location.cell,
        "location": place(finding.location),
        "end_location": place(finding.end_location),
        "fix": _fix(finding.fix),
        "fix_declined": _declined(finding.fix),
        "by_hand": rule.advice_for(finding.event) if rule is not None else None,
        "url": rule.url if rule is not None else None,
        "region": None
        if region is None
        else {
            "function": region.function,
            "call_path": list(region.call_path),
            "certain": region.certain,
            "road": list(region.call_path),  # its name in version 0.1
        },
        "evidence": list(finding.evidence),
        "only_if": list(finding.only_if),
        "consequences": finding.consequences,
        "gb_type": finding.gb_type or None,
        "gb_id": finding.gb_id or None,
    }


def render(report: Report) -> str:
    """The whole report."""
    return json.dumps([as_dict(finding, report) for finding in report.findings], indent=2) + "\n"
