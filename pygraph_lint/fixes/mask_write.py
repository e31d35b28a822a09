"""A number written through a mask of the tensor itself is filled in.

x[x < 0] = 0 -> x.masked_fill_(x < 0, 0)

Indexing with a mask fits it to the leading dimensions, masked_fill to the trailing ones, so the
mask has to be of the tensor's own shape: a comparison of the tensor itself with a number, or a
test of its values. Safe then, for a number that the smallest floating dtype holds.
"""

from __future__ import annotations

import ast
import math

from pygraph_lint.fixes.flow import binding, binds, earlier
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG406", "PG208")
_TESTS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "logical_not", "signbit")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_HALF_MAX = 65504


def propose(proposal: Proposal) -> None:
    """Fill instead of writing by index."""
    statement = proposal.statement
    proposal.message = "Fill through the mask in place"
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript):
        raise Declined("not a write through a mask")
    name = dotted(target.value)
    single = len(statement.targets) == 1 and name is not None
    proposal.need("one-target", single, "the value is written to more than one place")
    number = _number(proposal, statement.value)
    proposal.need("number", number, "what is written is not a number")
    own = name is not None and _own_mask(proposal, statement, target.slice, name)
    proposal.need("own-mask", own, "nothing proves that the mask has the tensor's shape")
    proposal.safe_if(
        "fits", _fits(statement.value), "masked_fill raises where the tensor's dtype is too small"
    )
    source = proposal.source
    mask, value = source.segment(target.slice), source.segment(statement.value)
    proposal.replace_node(
        statement, f"{source.segment(target.value)}.masked_fill_({mask}, {value})"
    )


def _number(proposal: Proposal, node: ast.expr) -> bool:
    """A real literal, ``float("-inf")``, or a limit from torch.finfo."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _number(proposal, node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "float":
        text = node.args[0] if len(node.args) == 1 else None
        return isinstance(text, ast.Constant) and not proposal.names.taken("float")
    return False


def _fits(node: ast.expr) -> bool:
    """Whether every floating dtype holds a number; writing by index makes others infinite."""
    try:
        size = abs(float(ast.literal_eval(_literal(node))))
    except (ValueError, TypeError, OverflowError):
        return False
    return math.isinf(size) or size <= _HALF_MAX


def _literal(node: ast.expr) -> ast.expr:
    """The literal of a number, without signs and ``float``."""
    while isinstance(node, (ast.UnaryOp, ast.Call)):
        node = node.operand if isinstance(node, ast.UnaryOp) else node.args[0]
    return node


def _own_mask(proposal: Proposal, statement: ast.stmt, mask: ast.expr, name: str) -> bool:
    """Whether a mask has, element for element, the shape of what ``name`` holds."""
    if isinstance(mask, ast.Name):
        made = binding(proposal, statement, mask.id)
        if made is None or "." in name or not _test_of(proposal, made.value, name):
            return False
        for between in earlier(proposal, statement):
            if between is made:
                return True
            if binds(between, name):
                return False
        return False
    return _test_of(proposal, mask, name)


def _test_of(proposal: Proposal, node: ast.expr, name: str) -> bool:
    """A comparison of ``name`` with a number, a test of its values, or the negation of one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return _test_of(proposal, node.operand, name)
    if isinstance(node, ast.Compare):
        plain = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
        fits = len(node.ops) == 1 and isinstance(node.ops[0], plain) and dotted(node.left) == name
        return fits and _number(proposal, node.comparators[0])
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    called = proposal.names.callee(node)
    if called is not None:
        return called in {f"torch.{test}" for test in _TESTS} and dotted(node.args[0]) == name
    if not isinstance(node.func, ast.Attribute) or dotted(node.func.value) != name:
        return False
    if node.func.attr in _COMPARISONS:
        return len(node.args) == 1 and _number(proposal, node.args[0])
    return node.func.attr in _TESTS and not node.args
