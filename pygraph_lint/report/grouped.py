"""The findings of each file under its name."""

from __future__ import annotations

from itertools import groupby

from pygraph_lint.report import Report, shown_path
from pygraph_lint.report.concise import described


def render(report: Report) -> str:
    """The whole report."""
    parts = []
    for filename, group in groupby(report.findings, lambda finding: finding.filename):
        findings = list(group)
        places = [str(one.location) for one in findings]
        width = max(map(len, places))
        lines = [
            f"  {place:<{width}} {described(finding, report.color)}\n"
            for place, finding in zip(places, findings, strict=True)
        ]
        parts.append(f"{shown_path(filename)}:\n{''.join(lines)}")
    return "\n".join(parts) + ("\n" if parts else "")
