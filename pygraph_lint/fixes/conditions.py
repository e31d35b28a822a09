"""Conditions taken apart: operands that are known when tracing, and those that need a tensor's
value.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.source import Source


def operands(test: ast.expr) -> list[ast.expr]:
    """The operands of an ``and``, or the test alone."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return test.values
    return [test]


def with_parentheses(source: Source, node: ast.expr, inside: ast.AST) -> tuple[int, int]:
    """The span of an expression with the parentheses around it, so far as inside ``inside``."""
    low, high = source.span(inside)
    start, end = source.span(node)
    while True:
        left, right = start, end
        while left > low and source.text[left - 1] in " \t\r\n":
            left -= 1
        while right < high and source.text[right] in " \t\r\n":
            right += 1
        inner = left > low and right < high
        if inner and source.text[left - 1] == "(" and source.text[right] == ")":
            start, end = left - 1, right + 1
        else:
            return start, end
