"""Bounds of a clamp: whether they are numbers, and whether the clamped tensor can hold them."""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.fixes.factories import FLOATING_DTYPES
from pygraph_lint.fixes.site import Site

_HALF_MAX = 65504


class Bounds(NamedTuple):
    """The name that is clamped, and what its branch assigns before."""

    name: str
    assigned: list[ast.Assign]


def is_number(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """Whether an expression is a Python number: literals, torch.finfo, the branch's own names,
    arithmetic.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(site, bounds, node.operand)
    if isinstance(node, ast.BinOp):
        return all(is_number(site, bounds, side) for side in (node.left, node.right))
    if isinstance(node, ast.Name):
        return _temporary(bounds, node.id) is not None
    return _is_limit(site, bounds, node)


def _is_limit(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """``torch.finfo(x.dtype).max`` and the like, of the guarded tensor's own dtype or a written
    one.
    """
    if not isinstance(node, ast.Attribute) or node.attr not in ("max", "min", "eps", "tiny"):
        return False
    limits = node.value
    if not isinstance(limits, ast.Call) or site.ask.callee(limits) != "torch.finfo":
        return False
    dtype = limits.args[0] if len(limits.args) == 1 else None
    if dtype is None:
        return False
    return dotted(dtype) == f"{bounds.name}.dtype" or site.ask.qualified(dtype) in FLOATING_DTYPES


def _temporary(bounds: Bounds, name: str) -> ast.expr | None:
    """What the branch assigns to one of its own names."""
    return next((each.value for each in bounds.assigned if dotted(each.targets[0]) == name), None)


def fits(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """Whether a bound is a number that x's dtype can hold: clamp raises for others, also when
    nothing is clamped.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return fits(site, bounds, node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and abs(node.value) <= _HALF_MAX
    if isinstance(node, ast.BinOp):
        small = isinstance(node.right, ast.Constant) and fits(site, bounds, node.right)
        limit = isinstance(node.left, ast.Attribute) and node.left.attr == "max"
        below = small and limit and isinstance(node.op, ast.Sub)
        return below and _is_own_limit(site, bounds, node.left)
    if isinstance(node, ast.Name):
        value = _temporary(bounds, node.id)
        return value is not None and not isinstance(value, ast.Name) and fits(site, bounds, value)
    return _is_own_limit(site, bounds, node)


def _is_own_limit(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """A limit of the guarded tensor's own dtype."""
    inner = (part for part in ast.walk(node) if isinstance(part, ast.expr))
    own = any(dotted(part) == f"{bounds.name}.dtype" for part in inner)
    return own and _is_limit(site, bounds, node)
