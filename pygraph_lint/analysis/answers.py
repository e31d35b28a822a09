"""Functions that are cached: what one file says. ``memoised.py`` joins it."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.names import FunctionNode, Names
from pygraph_lint.analysis.nodes import last_part, receiver, walk
from pygraph_lint.analysis.statement_graph import parameters

_OF_WEIGHTS = ("parameters", "named_parameters", "named_buffers", "state_dict")
_CACHES = ("functools.lru_cache", "functools.cache")


def is_memoised(node: FunctionNode, owner: ast.ClassDef | None, names: Names) -> bool:
    """Whether a function is cached: by a decorator, or where its object is made, ``self.table =
    lru_cache(9)(self.table)``.
    """
    if any(_caches(each, names) for each in node.decorator_list):
        return True
    own = f"self.{node.name}"
    return owner is not None and any(
        isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and _caches(each.value.func, names)
        and [ast.unparse(item) for item in (*each.targets, *each.value.args)] == [own, own]
        for method in owner.body
        if getattr(method, "name", "") in ("__init__", "__post_init__")
        for each in walk(method)
    )


def gets_modules(method: FunctionNode) -> bool:
    """Whether a method gets modules and nothing else, by their annotations or as it asks for their
    weights: it keeps averages of these, say.
    """
    given = [each.arg for each in parameters(method)[1:]]
    asked = {
        each.id
        for node in walk(method)
        if isinstance(each := receiver(node, _OF_WEIGHTS), ast.Name)
    }
    asked |= {
        each.arg
        for each in parameters(method)
        if each.annotation is not None and last_part(each.annotation) == "Module"
    }
    return bool(given) and asked.issuperset(given)


def _caches(node: ast.expr, names: Names) -> bool:
    return names.resolve(node.func if isinstance(node, ast.Call) else node) in _CACHES


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
