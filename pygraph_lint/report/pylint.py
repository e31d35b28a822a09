"""Pylint's parseable text, which many tools read: ``path:row: [CODE] message``."""

from __future__ import annotations

from pygraph_lint.report import Report, message, shown_path


def render(report: Report) -> str:
    """The whole report."""
    return "".join(
        f"{shown_path(finding.filename)}:{finding.location.file_line}: "
        f"[{finding.code}] {' '.join(message(finding).split())}\n"
        for finding in report.findings
    )
