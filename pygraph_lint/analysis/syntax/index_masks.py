"""Names that an index shows to be tensors: ``x[x > 0]``, ``y[~mask]``."""

from __future__ import annotations

import ast


def compared_name(node: ast.expr | None, names: set[str]) -> str:
    """The one of ``names`` whose ``~`` or comparison, or that of its elements, makes a mask."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        if any(map(_is_text, operands)):
            return ""
        if isinstance(node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)):
            return ""
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        operands = [node.operand]
    else:
        return ""
    bases = [part.value if isinstance(part, ast.Subscript) else part for part in operands]
    used = {part.id for part in bases if isinstance(part, ast.Name) and part.id in names}
    return used.pop() if len(used) == 1 else ""


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is a text, or a column of a table: ``table["name"]``."""
    node = node.slice if isinstance(node, ast.Subscript) else node
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def beside_another(mask: ast.expr) -> bool:
    """Whether a mask compares two names: it may be one because of either."""
    sides = [mask.left, *mask.comparators] if isinstance(mask, ast.Compare) else []
    return sum(isinstance(side, ast.Name) for side in sides) > 1


def called_mask(node: ast.expr, names: set[str]) -> str:
    """The one of ``names`` that is an index, and is called a mask."""
    name = node.id if isinstance(node, ast.Name) else ""
    return name if name in names and "mask" in name.lower().split("_") else ""
