"""Functions and classes that a module or a class keeps in tables, to be chosen at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.names import Names

_MOST = 40  # of one table
_OF_TORCH = ("torch.", "numpy.", "builtins.")  # a list of dtypes, of types to test for
_CONTAINERS = (ast.Dict, ast.List, ast.Tuple, ast.Set)


def members(table: ast.expr, names: Names) -> tuple[str, ...]:
    """The functions and classes that a container which is written out holds, also in tuples."""
    return tuple(_members(table, names, any_library=isinstance(table, ast.Dict)))


def holding(table: ast.expr, found: tuple[str, ...]) -> Value:
    """The value of a table that holds these; where it holds tuples, nothing is known of these."""
    nested = any(isinstance(value, _CONTAINERS) for value in _held_values(table))
    item = Value(v.CALLABLE | v.UNKNOWN, cls=",".join(sorted({*found})[:_MOST]))
    if isinstance(table, (ast.Dict, ast.Call)):
        return v.MAPPING_VALUE if nested else Value(v.MAPPING, item=item)
    return Value(v.SEQUENCE, item=v.UNKNOWN_VALUE if nested else item)


def added(node: ast.stmt) -> tuple[str, ast.expr] | None:
    """The table, and what is put into it, of ``TABLE[key] = function``."""
    match node:
        case ast.Assign([ast.Subscript(ast.Name(name), key)], value):
            return name, ast.Dict([key], [value])
    return None


def is_registered(node: ast.ClassDef) -> bool:
    """Whether a decorator puts a class into a table, going by its name: ``@register("name")``."""
    return any("regist" in ast.unparse(item).lower() for item in node.decorator_list)


def _members(table: ast.expr, names: Names, any_library: bool) -> Iterator[str]:
    for value in _held_values(table):
        partial = isinstance(value, ast.Call) and names.resolve(value.func) == "functools.partial"
        if isinstance(value, ast.Call) and partial and value.args:
            value = value.args[0]
        name = names.resolve(value) if isinstance(value, (ast.Name, ast.Attribute)) else None
        if name is not None and (any_library or not name.startswith(_OF_TORCH)):
            yield name
        elif isinstance(value, _CONTAINERS):
            yield from _members(value, names, any_library=False)


def _held_values(table: ast.expr) -> list[ast.expr]:
    if isinstance(table, ast.Dict):
        return table.values
    if isinstance(table, ast.Call):  # dict(name=function)
        return [keyword.value for keyword in table.keywords]
    return table.elts if isinstance(table, (ast.List, ast.Tuple, ast.Set)) else []
