"""Functions without parameters that are cached: what one file says. ``memoised.py`` joins it."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.names import FunctionNode, Names
from pygraph_lint.analysis.statement_graph import parameters

_CACHES = ("functools.lru_cache", "functools.cache")


def keeps_answer(node: FunctionNode, names: Names) -> bool:
    """Whether a function takes no arguments and, cached, gives the same object each time."""
    if len(node.decorator_list) != 1:
        return False  # another decorator may run code, or give something else, in each call
    if parameters(node) or isinstance(node, ast.AsyncFunctionDef):
        return False
    decorator = node.decorator_list[0]
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    given = (
        [*decorator.args, *(item.value for item in decorator.keywords)]
        if isinstance(decorator, ast.Call)
        else []
    )
    cached = names.resolve(inner) in _CACHES
    return cached and all(isinstance(item, ast.Constant) and item.value != 0 for item in given)
