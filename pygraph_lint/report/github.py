"""GitHub's workflow commands: findings shown as annotations on a pull request."""

from __future__ import annotations

from pygraph_lint.report import Report, shown_path

_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({":": "%3A", ",": "%2C"})


def render(report: Report) -> str:
    """The whole report."""
    lines = []
    for finding in report.findings:
        start, end = finding.location, finding.end_location
        where = f"file={finding.filename.translate(_PROPERTY)},line={start.file_line}"
        if start.cell is None:
            where += f",col={start.column},endLine={end.row},endColumn={end.column}"
        said = f"{shown_path(finding.filename)}:{start}: {finding.code} {finding.message}"
        title = f"pygraph-lint ({finding.code})".translate(_PROPERTY)
        lines.append(f"::error title={title},{where}::{said.translate(_DATA)}\n")
    return "".join(lines)
