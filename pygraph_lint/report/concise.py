"""One line a finding: ``path:row:column: CODE message``; ``[*]`` marks what ``--fix`` fixes."""

from __future__ import annotations

from pygraph_lint.findings import Finding
from pygraph_lint.report import Report, shown_path

_BOLD, _RED, _CYAN, _END = "\x1b[1m", "\x1b[1;31m", "\x1b[36m", "\x1b[0m"


def line(finding: Finding, color: bool = False) -> str:
    """The finding in one line."""
    path = shown_path(finding.filename)
    if not color:
        return f"{path}:{finding.location}: {described(finding)}"
    colon = f"{_CYAN}:{_END}"
    where = f"{_BOLD}{path}{_END}{colon}{str(finding.location).replace(':', colon)}{colon}"
    return f"{where} {described(finding, color)}"


def described(finding: Finding, color: bool = False) -> str:
    """Code, mark and message."""
    code = f"{_RED}{finding.code}{_END}" if color else finding.code
    mark = ""
    if finding.fix is not None and finding.fix.applicability == "safe":
        mark = f"[{_CYAN}*{_END}] " if color else "[*] "
    return f"{code} {mark}{' '.join(finding.message.split())}"


def render(report: Report) -> str:
    """The whole report."""
    return "".join(f"{line(finding, report.color)}\n" for finding in report.findings)
