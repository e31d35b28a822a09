"""Statements that only tell users something: that a value is wrong, or out of its usual range."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from pygraph_lint.analysis.nodes import last_part

_WARNS = re.compile(
    r"(^|_)(warn|warning|warn_once|warning_once|warn_advice|critical)$|_warn(ing)?_"
)
_SAYS = re.compile(r"^(print|info|debug|error|exception|log)$")


def begins_with_warning(body: Sequence[ast.stmt]) -> bool:
    """Whether a block first warns: it is for a state that a program is not meant to be in."""
    first = _first(body)
    return first is not None and _WARNS.search(last_part(first.func)) is not None


def only_tells(body: Sequence[ast.stmt]) -> bool:
    """Whether a block does nothing but print, log or warn."""
    return bool(body) and all(_tells(each) for each in body)


def _tells(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    last = last_part(call.func)
    return _SAYS.search(last) is not None or _WARNS.search(last) is not None


def _first(body: Sequence[ast.stmt]) -> ast.Call | None:
    """The call that a block begins with, behind texts that it makes for it."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return statement.value
        text = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(text, (ast.JoinedStr, ast.Constant)):
            return None
    return None
