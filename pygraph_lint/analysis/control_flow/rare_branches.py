"""Branches that few calls take: their condition seldom holds, or they only warn."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from pygraph_lint.analysis.syntax.nodes import compared, last_part, walk, without_not

_WARNS = re.compile(
    r"(^|_)(warn|warning|warn_once|warning_once|warn_advice|critical)$|_warn(ing)?_"
)
_SAYS = re.compile(r"^(print|info|debug|error|exception|log)$")


def begins_with_warning(body: Sequence[ast.stmt]) -> bool:
    """Whether a block first warns: it is for a state that a program is not meant to be in."""
    first = _first(body)
    return first is not None and warns(first)


def warns(call: ast.Call) -> bool:
    """Whether a function or method is called that warns, by its name."""
    return _WARNS.search(last_part(call.func)) is not None


def only_reports(body: Sequence[ast.stmt]) -> bool:
    """Whether a block does nothing but print, log or warn."""
    return bool(body) and all(_tells(each) for each in body)


def _tells(statement: ast.stmt) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    return _SAYS.search(last_part(call.func)) is not None or warns(call)


def _first(body: Sequence[ast.stmt]) -> ast.Call | None:
    """The call that a block begins with, behind texts that it makes for it."""
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            return statement.value
        text = statement.value if isinstance(statement, ast.Assign) else None
        if not isinstance(text, (ast.JoinedStr, ast.Constant)):
            return None
    return None


STEP = r"(\w+_)?(step|iter|itr|iteration|batch_(i|idx|index|id|nb))"
"""What the number of a step is called."""
_COUNTER = re.compile(rf"({STEP}|(\w+_)?epoch)s?")


def is_rare_outcome(test: ast.expr, holds: bool) -> bool:
    """Whether a condition comes out so on few calls."""
    test, holds = without_not(test, holds)
    if isinstance(test, ast.BoolOp):
        joined = isinstance(test.op, ast.And) is holds
        return joined and any(is_rare_outcome(each, holds) for each in test.values)
    if isinstance(test, ast.Constant):
        return bool(test.value) is not holds
    if _is_remainder(test):  # `if step % n: return`
        return not holds
    found = compared(test)
    if found is None or not isinstance(found[1], (ast.Eq, ast.NotEq)):
        return False
    left, operator, right = found
    equal = isinstance(operator, ast.Eq) is holds
    if _is_remainder(left):
        return equal
    return not equal and _is_device(left) and not isinstance(right, (ast.Constant, ast.Call))


def is_without_gpu(test: ast.expr, holds: bool) -> bool:
    """Whether a condition that comes out so says that there is no GPU: ``device.type == "cpu"``."""
    test, holds = without_not(test, holds)
    if isinstance(test, ast.BoolOp):
        joined = isinstance(test.op, ast.And) is holds
        return joined and any(is_without_gpu(each, holds) for each in test.values)
    if last_part(getattr(test, "func", test)) == "is_available":
        return not holds and "cuda" in ast.unparse(test)
    found = compared(test)
    if found is None or not isinstance(found[1], (ast.Eq, ast.NotEq)):
        return last_part(test) == ("is_cpu" if holds else "is_cuda")
    asked = ast.unparse(found[0])
    equal = isinstance(found[1], ast.Eq) is holds
    place = getattr(found[2], "value", None)
    return "device" in asked and place == ("cpu" if equal else "cuda")


def _is_remainder(node: ast.expr) -> bool:
    """``step % n``, ``(self.global_step - 1) % n``."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and any(_COUNTER.fullmatch(last_part(each)) is not None for each in walk(node.left))
    )


def _is_device(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device"
