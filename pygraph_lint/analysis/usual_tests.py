"""Conditions that come out one way on most calls: ``step % n == 0``, ``x.device != device``."""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.nodes import compared, dotted, walk, without_not

STEP = r"(\w+_)?(step|iter|itr|iteration|batch_(i|idx|index|id|nb))"
"""What the number of a step is called."""
_COUNTER = re.compile(rf"({STEP}|(\w+_)?epoch)s?")


def is_unusual(test: ast.expr, holds: bool) -> bool:
    """Whether a condition comes out so on few calls."""
    test, holds = without_not(test, holds)
    if isinstance(test, ast.BoolOp):
        joined = isinstance(test.op, ast.And) is holds
        return joined and any(is_unusual(each, holds) for each in test.values)
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


def _is_remainder(node: ast.expr) -> bool:
    """``step % n``, ``(self.global_step - 1) % n``."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mod)
        and any(
            _COUNTER.fullmatch((dotted(each) or "").rpartition(".")[2]) is not None
            for each in walk(node.left)
        )
    )


def _is_device(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device"
