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
from pygraph_lint.fixes.shared.factories import literal_number

_FUNCTIONS = frozenset("log log2 log10 log1p sqrt rsqrt reciprocal acos asin arccos arcsin".split())


def partial_operands(site: Site, node: ast.AST) -> list[ast.expr]:
    """What an expression divides by, or gives to a power, a root, a logarithm; only what may be a
    tensor.
    """
    found = [operand for each in ast.walk(node) if (operand := _operand(site, each)) is not None]
    return [each for each in found if site.ask.known(each).may_be(Type.TENSOR)]


def _operand(site: Site, node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Pow):
            return node.left if _is_partial(node.right) else None
        return node.right if isinstance(node.op, (ast.Div, ast.Mod)) else None
    name = method_name(node) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or (name != "pow" and name not in _FUNCTIONS):
        return None
    if name == "pow" and not _is_partial(node.args[-1] if node.args else node):
        return None
    function = site.ask.callee(node)  # None: a method
    if function is None and isinstance(node.func, ast.Attribute):
        return node.func.value
    return node.args[0] if node.args and (function or "").startswith("torch.") else None


def _is_partial(exponent: ast.expr) -> bool:
    """Whether a power is not smooth for every number, as far as the exponent is written out."""
    number = literal_number(exponent)
    return number is not None and (number < 0 or number % 1 != 0)


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
