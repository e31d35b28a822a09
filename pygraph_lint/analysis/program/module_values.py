"""What a statement of a module makes a variable hold."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value


def tensor_made_at_import(name: str) -> Value:
    """A tensor in a variable of a module."""
    why = f"`{name}` is a tensor made on the host when the module is imported"
    return v.tensor(why, device=v.ON_HOST)


def fields_of_named_tuple(call: ast.Call) -> tuple[str, ...]:
    """The fields of ``namedtuple("name", fields)``."""
    given = call.args[1] if len(call.args) > 1 else None
    if isinstance(given, ast.Constant) and isinstance(given.value, str):
        return tuple(given.value.replace(",", " ").split())
    parts = given.elts if isinstance(given, (ast.List, ast.Tuple)) else []
    texts = [part.value if isinstance(part, ast.Constant) else None for part in parts]
    pairs = [part.elts[0] for part in parts if isinstance(part, ast.Tuple) and part.elts]
    texts = [pair.value for pair in pairs if isinstance(pair, ast.Constant)] if pairs else texts
    return tuple(text for text in texts if isinstance(text, str))


def kind_of_constant(node: ast.Constant) -> Value:
    """The kind of value that a variable which starts as this constant holds."""
    if isinstance(node.value, str):
        return v.TEXT_VALUE
    if node.value is None:
        return Value(v.NONE | v.UNKNOWN)
    return v.NUMBER_VALUE
