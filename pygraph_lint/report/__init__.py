"""Reports: one format a file, each with a function ``render(report) -> str``."""

from __future__ import annotations

import importlib

from pygraph_lint.report.report import Report


def render(name: str, report: Report) -> str:
    """The report in the format ``name`` (one of ``settings.FORMATS``)."""
    module = importlib.import_module(f"pygraph_lint.report.{name}")
    rendered: str = module.render(report)
    return rendered
