"""One JSON object a line, with the keys of the ``json`` format."""

from __future__ import annotations

import json

from pygraph_lint.report import Report
from pygraph_lint.report.json import as_dict


def render(report: Report) -> str:
    """The whole report."""
    return "".join(f"{json.dumps(as_dict(finding, report))}\n" for finding in report.findings)
