"""Reports: one format a file, each with a function ``render(report) -> str``."""

from __future__ import annotations

import importlib

from pygraph_lint.output.report import Report


def render(name: str, report: Report) -> str:
    """The report in the format ``name`` (one of ``settings.FORMATS``)."""
    module = importlib.import_module(f"pygraph_lint.output.{name}")
    rendered: str = module.render(report)
    return rendered
