"""Functions that are cached: what one file says. ``interprocedural.graph_breaks`` joins it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.program.names import FunctionNode, Names
from pygraph_lint.analysis.syntax.nodes import Body, last_part, receiver, walk

_OF_WEIGHTS = ("parameters", "named_parameters", "named_buffers", "state_dict")
_CACHES = ("functools.lru_cache", "functools.cache")


def may_cache(names: Names) -> bool:
    """Whether a file imports anything that caches functions."""
    return any(
        (each or "").startswith("functools") for each in (*names.bindings.values(), names.star)
    )


def is_cached(node: FunctionNode, owner: ast.ClassDef | None, names: Names) -> bool:
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


def takes_only_modules(method: FunctionNode, body: Body, may_have: Callable[[str], bool]) -> bool:
    """Whether a method with this body gets modules and nothing else, by their annotations or as it
    asks for their weights: it keeps averages of these, say. ``may_have`` says of a part whether the
    text of the file may have it.
    """
    given = parameters(method)[1:]
    if not given:
        return False
    rest = {
        each.arg
        for each in given
        if each.annotation is None or last_part(each.annotation) != "Module"
    }
    if not rest or not any(map(may_have, _OF_WEIGHTS)):
        return not rest
    return rest.issubset(
        each.id
        for node in body.nodes
        if node.__class__ is ast.Call and isinstance(each := receiver(node, _OF_WEIGHTS), ast.Name)
    )


def _caches(node: ast.expr, names: Names) -> bool:
    return names.resolve(node.func if isinstance(node, ast.Call) else node) in _CACHES


def is_cached_without_parameters(node: FunctionNode, names: Names) -> bool:
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
