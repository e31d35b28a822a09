"""Operations that are not defined for some values, or have an infinite slope there, where they are
computed although nobody takes their result.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial

import libcst as cst

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.engine.build import Change, call, changed
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Site

_FUNCTIONS = frozenset(
    "log log2 log10 log1p sqrt rsqrt reciprocal pow acos asin arccos arcsin".split()
)


def partial_operands(site: Site, node: ast.AST) -> list[ast.expr]:
    """What an expression divides by, or gives to a power, a root, a logarithm; only what may be a
    tensor.
    """
    found = [operand for each in ast.walk(node) if (operand := _operand(each)) is not None]
    return [each for each in found if site.ask.known(each).may_be(Type.TENSOR)]


def _operand(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return None if _is_whole(node.right) else node.left
        return node.right if isinstance(node.op, (ast.Div, ast.Mod)) else None
    if not isinstance(node, ast.Call) or method_name(node) not in _FUNCTIONS:
        return None
    powers = node.args[-1:] if method_name(node) == "pow" else []
    if any(map(_is_whole, powers)):
        return None
    torch = isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "torch"
    if torch or not isinstance(node.func, ast.Attribute):
        return node.args[0] if node.args else None
    return node.func.value


def _is_whole(exponent: ast.expr) -> bool:
    """Whether an exponent is a whole number above zero, for which every power is smooth."""
    value = exponent.value if isinstance(exponent, ast.Constant) else None
    return isinstance(value, int) and value > 0


def defined(
    site: Site,
    node: ast.expr,
    condition: cst.BaseExpression,
    taken: bool = True,
    changes: Iterable[tuple[cst.CSTNode, Change]] = (),
    operands: Iterable[ast.expr] | None = None,
) -> cst.BaseExpression:
    """An expression whose partial operations work on 1 where ``condition`` is not ``taken``, so
    that no nan gets into gradients. ``changes`` are made before; ``operands``: of these only.
    """
    found: dict[cst.CSTNode, Change] = dict(changes)

    def safe(operand: cst.CSTNode, before: Change) -> cst.BaseExpression:
        new = before(operand)
        assert isinstance(new, cst.BaseExpression)
        arms = (new, cst.Integer("1"))
        return call(f"{use_torch(site)}.where", condition, *(arms if taken else arms[::-1]))

    for each in partial_operands(site, node) if operands is None else operands:
        key = site.expression_node(each)
        found[key] = partial(safe, before=found.get(key, _same))
    result = changed(site.expression_node(node), found)
    assert isinstance(result, cst.BaseExpression)
    return result


def _same(node: cst.CSTNode) -> cst.CSTNode:
    return node
