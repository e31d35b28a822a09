"""Functions of a file that do little but call another one."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pygraph_lint.analysis.known import Type
from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.fixes.breaking_places import in_avoided_arm
from pygraph_lint.fixes.decorated import is_called
from pygraph_lint.fixes.names import own_nodes
from pygraph_lint.fixes.site import Site

# What else is in the turns of a loop, or runs later.
_LATER = (ast.Yield, ast.YieldFrom, ast.Await, ast.For, ast.While)
#: So many operations between two breaks cost less one by one than as a graph of their own.
FEW = 8
# What is compiled by itself, where nothing of the region calls it.
_ROOTS = ("forward", "__call__")
# What may not evaluate its parts, or not once.
_SCOPES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda, ast.BoolOp)


def calls_of(site: Site, function: ast.FunctionDef) -> list[ast.Call]:
    """The calls of a function, or of a method on ``self``, in its file."""
    method = isinstance(site.parent(function), ast.ClassDef)
    name = f"self.{function.name}" if method else function.name
    named = site.ask.definitions.calls.get(function.name, ())
    return [each for each in named if dotted(each.func) == name]


def passing_on(site: Site, function: ast.FunctionDef) -> list[ast.FunctionDef]:
    """The helpers that always call a function and compute little themselves: where it is left out
    of compiled code, the graph ends in each of them, and again where they are called. What is only
    called from other files, as far as known, computes nothing.
    """
    found: dict[ast.FunctionDef, None] = {}
    for call in calls_of(site, function):
        scope = site.ask.scope(call)
        if not isinstance(scope, ast.FunctionDef) or scope is function or scope.decorator_list:
            continue
        path = [*reversed([*site.ask.path(call)]), call]
        path = path[path.index(scope) :]
        once = not in_avoided_arm(path, []) and not any(isinstance(each, _SCOPES) for each in path)
        plain = site.ask.parent(scope) is site.parent(function)
        done = work(site, scope)
        idle = not done and scope.name not in _ROOTS
        helper = done <= FEW and is_called(site, scope)
        later = any(isinstance(each, _LATER) for each in own_nodes(scope))
        if once and plain and not later and (idle or helper):
            found[scope] = None
    return list(found)


def work(site: Site, function: ast.FunctionDef) -> int:
    """How many operations on what may be tensors a function makes itself, in its body."""
    start = function.body[0].lineno
    parts = [node for node in own_nodes(function) if isinstance(node, ast.expr)]
    return operations(site, (node for node in parts if node.lineno >= start))


def operations(site: Site, nodes: Iterable[ast.AST]) -> int:
    """How many nodes are operations on what may be tensors."""
    return sum(isinstance(node, ast.expr) and _is_operation(site, node) for node in nodes)


def _is_operation(site: Site, node: ast.expr) -> bool:
    if isinstance(node, (ast.BinOp, ast.Compare)):
        return site.ask.known(node).may_be(Type.TENSOR)
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Subscript) and site.ask.is_tensor(node)
    name = site.ask.callee(node)
    if name is not None or not isinstance(node.func, ast.Attribute):
        return (name or "").startswith("torch.")
    holder = node.func.value
    own = (dotted(holder) or "").startswith(("self", "cls")) and not site.ask.is_tensor(holder)
    return not own and site.ask.known(holder).may_be(Type.TENSOR)
