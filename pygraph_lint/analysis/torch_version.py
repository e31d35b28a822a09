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
    if len(node.ops) != 1 or not _is_of_torch(resolve, node.left):
        return None
    asked = _unparsed(node.comparators[0])
    if not isinstance(asked, ast.Constant) or not isinstance(asked.value, str):
        return None
    numbers = tuple(int(part) for part in asked.value.split(".")[:2] if part.isdigit())
    if not numbers or numbers >= _OLDEST:
        return None
    if isinstance(node.ops[0], (ast.GtE, ast.Gt, ast.NotEq)):
        return True
    return False if isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Eq)) else None


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
