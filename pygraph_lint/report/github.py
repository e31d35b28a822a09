"""GitHub's workflow commands: findings shown as annotations on a pull request."""

from __future__ import annotations

from pygraph_lint.report import Report, shown_path


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render(report: Report) -> str:
    """The whole report."""
    lines = []
    for finding in report.findings:
        start, end = finding.location, finding.end_location
        where = f"file={_property(finding.filename)},line={start.file_line}"
        if start.cell is None:
            where += f",col={start.column},endLine={end.row},endColumn={end.column}"
        said = f"{shown_path(finding.filename)}:{start}: {finding.code} "
        title = _property(f"pygraph-lint ({finding.code})")
        lines.append(f"::error title={title},{where}::{_data(said + finding.message)}\n")
    return "".join(lines)
