"""Which arguments a backward's generated code may write to.

Nobody reads what a forward saved for its backward afterwards, so generated code may put results in
its place. It does so under another name: `buf0 = mm_1; del mm_1`, or with a view of it.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pygraph_rt.inductor.runner_inlining import Inlined

_VIEW = "reinterpret_tensor"


def source_of(function: Any) -> str:
    """The text of a generated function's module; empty where it is in no file."""
    code = getattr(function, "__code__", None)
    return "" if code is None else "".join(linecache.getlines(code.co_filename))


def overwritten(function: Callable[..., Any], donated: frozenset[int]) -> frozenset[int]:
    """The arguments among `donated` that the code may write to: all where that cannot be read."""
    generated = function.generated if isinstance(function, Inlined) else function
    body = _statements_of(generated) if donated else None
    names = None if body is None else _arguments(body)
    if body is None or names is None or any(i >= len(names) for i in donated):
        return donated
    renamed = {name for node in body if (name := _renamed(node)) is not None}
    return frozenset(i for i in donated if names[i] in renamed)


def _statements_of(function: Any) -> list[ast.stmt] | None:
    """All statements of the function, read in its module's file."""
    try:
        code = function.__code__
        tree = ast.parse(source_of(function))
    except (AttributeError, SyntaxError, ValueError):
        return None
    for node in _nested(tree):
        place = (getattr(node, "name", ""), node.lineno)
        if isinstance(node, ast.FunctionDef) and place == (code.co_name, code.co_firstlineno):
            return list(_nested(node))
    return None


def _nested(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements in a node's blocks, outer ones first; expressions are not entered."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            if isinstance(child, ast.stmt):
                yield child
            yield from _nested(child)


def _arguments(body: Sequence[ast.stmt]) -> list[str] | None:
    """The names that `a, b = args` gives to a function's arguments."""
    for node in body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Name)
            and node.value.id == "args"
            and isinstance(target := node.targets[0], (ast.Tuple, ast.List))
        ):
            names = [each.id for each in target.elts if isinstance(each, ast.Name)]
            return names if len(names) == len(target.elts) else None
    return None


def _renamed(node: ast.stmt) -> str | None:
    """The variable that gets another name, itself or a view of it."""
    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
    if isinstance(value, ast.Call) and value.args and _tail(value.func) == _VIEW:
        value = value.args[0]
    return value.id if isinstance(value, ast.Name) else None


def _tail(function: ast.expr) -> str:
    """The last part of a function's name."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
