"""Methods that only tensors have."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops


def is_of_tensors(method: str, call: ast.Call) -> bool:
    """Whether only a tensor has a method that is called like this."""
    first = call.args[0] if call.args else None
    if method == "backward":  # of a loss
        return first is None
    if first is not None and method in ops.WITHOUT_ARGUMENTS:
        return False
    plain = first is None or isinstance(first, (ast.Constant, ast.UnaryOp))
    return method in ops.CERTAIN_METHODS or (plain and method in ops.CERTAIN_OF_NUMBERS)
