"""Comparisons with torch's version that every supported torch decides alike."""

from __future__ import annotations

import ast
from collections.abc import Callable

_OLDEST = (2, 11)
_PARSERS = frozenset(("parse", "parse_version", "Version", "LooseVersion", "TorchVersion", "str"))

Resolve = Callable[[ast.expr], "str | None"]


def compared(resolve: Resolve, node: ast.Compare) -> bool | None:
    """What ``torch.__version__ >= "1.8"`` gives, through ``version.parse`` as well; None where
    supported versions differ, and for other comparisons.
    """
    left, right = _sides(node)
    if len(node.ops) != 1 or not _is_of_torch(resolve, left):
        return None
    asked = _unparsed(right)
    if not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
        return None
    numbers = tuple(int(part) for part in asked.value.split(".")[:2] if part.isdigit())
    if not numbers or numbers >= _OLDEST:
        return None
    if isinstance(node.ops[0], (ast.GtE, ast.Gt, ast.NotEq)):
        return True
    return False if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Eq)) else None


def _sides(node: ast.Compare) -> tuple[ast.expr, ast.expr]:
    """What is compared; of two texts that the same function reads as versions, the texts."""
    left, right = node.left, node.comparators[0]
    calls = [each for each in (left, right) if isinstance(each, ast.Call) and len(each.args) == 1]
    reads = {ast.unparse(each.func) for each in calls}
    if len(calls) == 2 and len(reads) == 1 and "version" in reads.pop().lower():
        return calls[0].args[0], calls[1].args[0]
    return left, right


def _unparsed(node: ast.expr) -> ast.expr:
    """The text that ``version.parse(text)`` or ``Version(text)`` reads."""
    while isinstance(node, ast.Call) and len(node.args) == 1:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name not in _PARSERS:
            break
        node = node.args[0]
    return node


def _is_of_torch(resolve: Resolve, node: ast.expr) -> bool:
    text = _unparsed(node)
    return isinstance(text, ast.Attribute) and resolve(text) in (
        "torch.__version__",
        "torch.version.__version__",
    )
