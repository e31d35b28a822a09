"""Functions that are cached: what one file says. ``interprocedural.graph_breaks`` joins it."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.program.names import FunctionNode, Names
from pygraph_lint.analysis.syntax.nodes import Body, last_part, receiver

_OF_WEIGHTS = ("parameters", "named_parameters", "named_buffers", "state_dict")
_CACHES = ("functools.lru_cache", "functools.cache")


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
