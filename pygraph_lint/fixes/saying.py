"""Statements that only say something: print, loggers, warnings."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.site import Site

_LOG_METHODS = frozenset(
    (
        *("debug", "info", "warning", "warn", "error", "critical", "exception", "log"),
        *("warning_once", "info_once", "warning_advice"),
    )
)


def says(site: Site, statement: ast.stmt, logs: bool) -> bool:
    """Whether a statement is a call of print, a logger or warnings, and nothing else. ``logs``: the
    analysis says that its method logs.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = site.ask.callee(call) or ""
    if name.startswith(("logging.", "warnings.")):
        return True
    if isinstance(call.func, ast.Name):
        return name in ("builtins.print", "pprint.pprint")
    return isinstance(call.func, ast.Attribute) and (logs or call.func.attr in _LOG_METHODS)
