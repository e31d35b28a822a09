"""Tests for inf and nan in conditions: found, and written as one boolean tensor."""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.build import inverted, joined
from pygraph_lint.fixes.names import pure
from pygraph_lint.fixes.site import Site

_TESTS = ("isinf", "isnan", "isfinite")


def only_looks(node: ast.expr) -> bool:
    """Whether an operand only looks at what is there, and is unlikely to raise: an order of two
    values is not among them.
    """
    if isinstance(node, ast.BoolOp):
        return all(map(only_looks, node.values))
    if isinstance(node, ast.UnaryOp):
        return only_looks(node.operand)
    if isinstance(node, ast.Compare):
        plain = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
        calm = all(isinstance(item, plain) for item in node.ops)
        return calm and all(map(only_looks, [node.left, *node.comparators]))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(only_looks, node.elts))
    return pure(node)


def is_finite_test(site: Site, node: ast.expr) -> bool:
    """A 0-d boolean tensor: ``isinf(x).any()`` and the like, joined by or, or negated."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_finite_test(site, node.operand)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return all(is_finite_test(site, value) for value in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        if node.func.attr == "item" and not node.args:
            return is_finite_test(site, node.func.value)
        reduced = _reduced(site, node)
        return reduced is not None and is_test(site, reduced)
    return False


def _reduced(site: Site, node: ast.Call) -> ast.expr | None:
    """What ``t.any()`` or ``torch.any(t)`` reduces to one element."""
    if site.ask.callee(node) in ("torch.any", "torch.all"):
        return node.args[0] if len(node.args) == 1 else None
    assert isinstance(node.func, ast.Attribute)
    return node.func.value if node.func.attr in ("any", "all") and not node.args else None


def is_test(site: Site, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = site.ask.callee(node)
    if name is not None:
        return name.removeprefix("torch.") in _TESTS and len(node.args) == 1 and not node.keywords
    return isinstance(node.func, ast.Attribute) and node.func.attr in _TESTS and not node.args


def tested_value(site: Site, node: ast.Call) -> ast.expr:
    """``x`` of ``torch.isinf(x)`` or ``x.isinf()``."""
    if site.ask.callee(node) is not None:
        return node.args[0]
    assert isinstance(node.func, ast.Attribute)
    return node.func.value


def mentions_test(site: Site, node: ast.expr) -> bool:
    return any(is_test(site, inner) for inner in ast.walk(node))


def as_tensor(site: Site, node: ast.expr) -> cst.BaseExpression:
    """A test as one boolean tensor."""
    if isinstance(node, ast.UnaryOp):
        return inverted(as_tensor(site, node.operand))
    if isinstance(node, ast.BoolOp):
        return joined([as_tensor(site, value) for value in node.values], cst.BitOr())
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return site.expression_node(node.func.value if node.func.attr == "item" else node)
