"""Azure Pipelines' logging commands: findings shown as errors of the build."""

from __future__ import annotations

from pygraph_lint.report import Report, message, shown_path

_DATA = str.maketrans({"%": "%AZP25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = _DATA | str.maketrans({";": "%3B", "]": "%5D"})


def render(report: Report) -> str:
    """The whole report."""
    lines = []
    for finding in report.findings:
        place = finding.location
        path = shown_path(finding.filename).translate(_PROPERTY)
        where = f"sourcepath={path};linenumber={place.file_line}"
        if place.cell is None:
            where += f";columnnumber={place.column}"
        said = message(finding).translate(_DATA)
        lines.append(f"##vso[task.logissue type=error;{where};code={finding.code};]{said}\n")
    return "".join(lines)
