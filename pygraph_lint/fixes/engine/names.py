"""How a function uses its names: read from the syntax tree alone."""

from __future__ import annotations

import ast
from functools import lru_cache

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, parameters
from pygraph_lint.analysis.syntax.nodes import (
    children,
    dotted,
    names_read,
    statements_by_depth,
    walk,
)


@lru_cache(maxsize=512)
def own_nodes(function: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a function's body, without those of functions and classes defined in it."""
    found: list[ast.AST] = []
    stack = children(function)[::-1]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            stack += reversed(children(node))
    return tuple(found)


@lru_cache(maxsize=512)
def all_nodes(root: ast.AST) -> tuple[ast.AST, ...]:
    """``root`` and all nodes below it, kept because many rewrites ask for the same ones."""
    return tuple(walk(root))


def forget() -> None:
    """Let go of a file's syntax tree, once all its findings have been looked at."""
    for kept in (own_nodes, all_nodes, _stored):
        kept.cache_clear()


def stores(function: ast.AST, name: str) -> list[ast.AST]:
    """Nodes of a function that bind a name (parameters included), in source order."""
    found: list[ast.AST] = []
    if isinstance(function, FUNCTIONS):
        found += [argument for argument in parameters(function) if argument.arg == name]
    return found + [node for node in own_nodes(function) if name in _bound(node)]


def _bound(node: ast.AST) -> tuple[str | None, ...]:
    """The names that a node itself binds or deletes."""
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return tuple(each.asname or each.name.partition(".")[0] for each in node.names)
    if isinstance(node, ast.MatchMapping):
        return (node.rest,)
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)
    matched = (ast.MatchAs, ast.MatchStar)
    return (node.name,) if isinstance(node, (*named, *matched)) else ()


def loads(function: ast.AST, name: str) -> list[ast.Name]:
    """Nodes of a function (and of functions inside it) that read a name."""
    return [node for node in names_read(all_nodes(function)) if node.id == name]


def stored(owner: ast.ClassDef, place: str) -> list[ast.expr]:
    """What a class assigns to ``self.x``."""
    return _stored(owner).get(place, [])


@lru_cache(maxsize=512)
def _stored(owner: ast.ClassDef) -> dict[str, list[ast.expr]]:
    """What a class assigns, by the text of the target."""
    found: dict[str, list[ast.expr]] = {}
    for node in statements_by_depth(owner.body):
        if isinstance(node, ast.Assign):
            for place in {dotted(each) or ast.unparse(each) for each in node.targets}:
                found.setdefault(place, []).append(node.value)
    return found


def shared(function: ast.AST, name: str) -> bool:
    """Whether code outside a function, or a function inside it, may bind its name: one of them
    declares it global or nonlocal.
    """
    return any(
        isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names
        for node in all_nodes(function)
    )


def pure(node: ast.expr) -> bool:
    """Whether evaluating an expression early, late or not at all makes no difference: names,
    attributes, constants.
    """
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return pure(node.value)
    if isinstance(node, ast.UnaryOp):
        return pure(node.operand)
    return False


def assigned_values(function: ast.AST, name: str) -> list[ast.expr] | None:
    """The right-hand sides of a local name's bindings; None if one of them is not a plain
    assignment, or if other functions may bind the name.
    """
    if shared(function, name):
        return None
    bindings = stores(function, name)
    values = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
        and node.value is not None
        and any(target in bindings for target in _targets(node))
    ]
    return values if bindings and len(values) == len(bindings) else None


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]


def changed_in_place(function: ast.AST, name: str) -> bool:
    """Whether a function changes a tensor in place under this name: ``x += y``, ``x.mul_(y)``,
    ``x[i] = y``.
    """
    return any(changes_in_place(node, name) for node in all_nodes(function))


_OF_LISTS = ("append", "extend", "insert", "pop", "remove", "sort", "reverse", "clear")


def changes_in_place(node: ast.AST, name: str) -> bool:
    """Whether one node changes what ``name`` (it may have dots) holds: a tensor, a list."""
    if isinstance(node, ast.AugAssign):
        return dotted(node.target) == name
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        changes = node.func.attr.endswith("_") or node.func.attr in _OF_LISTS
        return changes and dotted(node.func.value) == name
    stored = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    return stored and dotted(node.value) == name  # type: ignore[attr-defined]
