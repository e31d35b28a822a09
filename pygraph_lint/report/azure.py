"""Azure Pipelines' logging commands: findings shown as errors of the build."""

from __future__ import annotations

from pygraph_lint.report import Report, message, shown_path


def _property(text: str) -> str:
    text = _data(text).replace(";", "%3B")
    return text.replace("]", "%5D")


def _data(text: str) -> str:
    return text.replace("%", "%AZP25").replace("\r", "%0D").replace("\n", "%0A")


def render(report: Report) -> str:
    """The whole report."""
    lines = []
    for finding in report.findings:
        place = finding.location
        where = f"sourcepath={_property(shown_path(finding.filename))};linenumber={place.file_line}"
        if place.cell is None:
            where += f";columnnumber={place.column}"
        said = _data(message(finding))
        lines.append(f"##vso[task.logissue type=error;{where};code={finding.code};]{said}\n")
    return "".join(lines)
