"""Which way a branch goes on most calls: read from its condition and from defaults alone."""

from __future__ import annotations

import ast
from collections.abc import Collection

from pygraph_lint.analysis import ops
from pygraph_lint.analysis.nodes import dotted, last_part, method_name
from pygraph_lint.analysis.statement_graph import FUNCTIONS, defaults

_FOLDED_FALSE = {name.rpartition(".")[2] for name in ops.FOLDED_FALSE} | ops.FOLDED_FALSE_NAMES
_TENSORS = ("torch.Tensor", "Tensor")


def usual(function: ast.AST, test: ast.expr, given: Collection[str] = ()) -> bool | None:
    """What a condition of a function mostly is: as the defaults of its parameters say, but for
    those that are ``given``, a tensor is one and has elements, and nothing is scripted. None where
    that is not known.
    """
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = usual(function, test.operand, given)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        found = {usual(function, each, given) for each in test.values}
        decides = isinstance(test.op, ast.Or)
        return decides if decides in found else None if None in found else not decides
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(_default(function, test.left, given), test)
    if isinstance(test, ast.Call):
        return _called(test)
    default = _default(function, test, given)
    known = default is not None and (default.value is None or isinstance(default.value, bool))
    return bool(default.value) if default is not None and known else None


def _compared(default: ast.Constant | None, test: ast.Compare) -> bool | None:
    operator, right = test.ops[0], test.comparators[0]
    value = right.value if isinstance(right, ast.Constant) else ...
    if value is None and isinstance(operator, (ast.Is, ast.IsNot)):
        if default is None:
            return None
        return (default.value is None) is isinstance(operator, ast.Is)
    if not _is_size(test.left) or value != 0:
        return None
    return {ast.Gt: True, ast.NotEq: True, ast.Eq: False}.get(type(operator))


def _called(call: ast.Call) -> bool | None:
    name = last_part(call.func)
    if name in _FOLDED_FALSE:
        return False
    of_tensors = name == "isinstance" and len(call.args) == 2 and dotted(call.args[1]) in _TENSORS
    return True if of_tensors or name == "is_tensor" or _is_size(call) else None


def _is_size(node: ast.expr) -> bool:
    """Whether a node is how many elements something has."""
    called = node.func if isinstance(node, ast.Call) else None
    return method_name(node) == "numel" or dotted(called) == "len"


def _default(function: ast.AST, node: ast.expr, given: Collection[str]) -> ast.Constant | None:
    """The default of a parameter that is not given, where it is a constant."""
    named = isinstance(function, FUNCTIONS) and isinstance(node, ast.Name) and node.id not in given
    default = defaults(function).get(node.id) if named else None  # type: ignore[arg-type,attr-defined]
    return default if isinstance(default, ast.Constant) else None
