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
    return "".join(
        f"##vso[task.logissue type=error;sourcepath={_property(shown_path(finding.filename))};"
        f"linenumber={finding.location.row};columnnumber={finding.location.column};"
        f"code={finding.code};]{_data(message(finding))}\n"
        for finding in report.findings
    )
