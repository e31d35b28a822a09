"""GitLab's code quality report.

Source: the documentation of GitLab CI/CD, "Code Quality", section "Code Quality report format".
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from pygraph_lint.findings import Finding
from pygraph_lint.report import Report, is_error, line_and_column, message, shown_path


def _fingerprint(finding: Finding, seen: Counter[tuple[str, str, str]]) -> str:
    """Stands for the finding without its line, so that moved code keeps it; equal findings of one
    file are told apart by their order.
    """
    about = (finding.code, shown_path(finding.filename), finding.message)
    seen[about] += 1
    said = "\0".join((*about, str(seen[about])))
    return hashlib.sha256(said.encode(errors="backslashreplace")).hexdigest()


def render(report: Report) -> str:
    """The whole report."""
    seen: Counter[tuple[str, str, str]] = Counter()
    issues: list[dict[str, Any]] = [
        {
            "description": f"{finding.code}: {message(finding)}",
            "check_name": finding.code,
            "fingerprint": _fingerprint(finding, seen),
            "severity": "blocker" if is_error(finding) else "minor",
            "location": {
                "path": shown_path(finding.filename),
                "positions": {
                    "begin": line_and_column(finding.location),
                    "end": line_and_column(finding.end_location),
                },
            },
        }
        for finding in report.findings
    ]
    return json.dumps(issues, indent=2) + "\n"
