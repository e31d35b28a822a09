"""One line a finding: ``path:row:column: CODE message``."""

from __future__ import annotations

from pygraph_lint.findings import Finding
from pygraph_lint.report.report import Report, shown_path


def line(finding: Finding) -> str:
    """The finding in one line."""
    place = finding.location
    path = shown_path(finding.filename)
    mark = "[*] " if finding.fix is not None and finding.fix.applicability == "safe" else ""
    message = " ".join(finding.message.split())
    return f"{path}:{place.row}:{place.column}: {finding.code} {mark}{message}"


def render(report: Report) -> str:
    """The whole report."""
    return "".join(f"{line(finding)}\n" for finding in report.findings)
