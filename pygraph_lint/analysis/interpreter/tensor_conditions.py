"""What conditions ask of tensors: half precision, the host, NaN, or no elements."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.syntax.nodes import compared, dotted, is_zero, receiver, without_not

_HALF = frozenset(("torch.float16", "torch.half"))


def asks_for_half_precision(state: State, node: ast.expr) -> bool:
    """Whether a condition is ``x.dtype == torch.float16``: what follows only happens in half
    precision.
    """
    left, operator, right = compared(node) or (node, None, node)
    equal = isinstance(operator, ast.Eq)
    return equal and any(state.qualified(each) in _HALF for each in (left, right) if dotted(each))


def asks_for_non_finite(state: State, node: ast.expr, outcome: bool) -> bool:
    """Whether a condition comes out so for a tensor with NaN or infinite numbers."""
    node, outcome = without_not(node, outcome)
    if isinstance(node, ast.BoolOp):
        return outcome and all(asks_for_non_finite(state, each, True) for each in node.values)
    value = state.ev_quiet(node) if state.may_ask_if_finite else v.UNKNOWN_VALUE
    if not value.is_tensor or not value.flags & v.FINITE:
        return False
    return outcome is not ("isfinite" in ast.unparse(node))


def asks_for_empty(state: State, node: ast.expr, outcome: bool) -> bool:
    """Whether a condition comes out so for a tensor without elements, ``x.numel() == 0``, or for a
    list that the function fills itself.
    """
    node, outcome = without_not(node, outcome)
    held = without_elements(state, node, outcome)
    if isinstance(held, ast.Name) and held.id not in state.passed:
        return True
    parts = compared(node)
    if parts is not None:
        left, operator, right = parts
        if not is_zero(right) or not isinstance(operator, (ast.Eq, ast.NotEq, ast.Gt)):
            return False
        return outcome == isinstance(operator, ast.Eq) and _counts(state, left)
    return not outcome and _counts(state, node)


def _counts(state: State, node: ast.expr) -> bool:
    """Whether an expression is a number of elements of a tensor."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _counts(state, node.left) or _counts(state, node.right)
    if isinstance(node, ast.Name):
        return bool(state.env.get(node.id, v.UNKNOWN_VALUE).flags & v.SIZE)
    counted: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
        counted = node.value.value if node.value.attr == "shape" else None
    elif isinstance(node, ast.Call) and state.qualified(node.func) == "builtins.len" and node.args:
        counted = node.args[0]
    else:
        counted = receiver(node, ("numel", "nelement", "size"))
    return counted is not None and state.ev_quiet(counted).is_tensor


def without_elements(state: State, node: ast.expr, outcome: bool) -> ast.expr | None:
    """The list or tuple that has no elements where a test came out so: ``len(xs) > 0``, ``xs``."""
    held, parts = node, compared(node)
    if parts is not None:
        call, operator, right = parts
        if not is_zero(right) or not isinstance(operator, (ast.Gt, ast.NotEq, ast.Eq)):
            return None
        if not isinstance(call, ast.Call) or len(call.args) != 1:
            return None
        if state.qualified(call.func) != "builtins.len":
            return None
        held, outcome = call.args[0], outcome != isinstance(operator, ast.Eq)
    if outcome or not isinstance(held, (ast.Name, ast.Attribute)):
        return None
    return held if state.ev_quiet(held).kinds == v.SEQUENCE else None
