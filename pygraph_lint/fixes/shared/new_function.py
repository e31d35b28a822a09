"""A new function above the code that moves into it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.fixes.engine.site import Site

# What sees the names of the function around it.
LOOKING = ("locals", "vars", "dir", "eval", "exec")
_TIED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def is_tied(nodes: Iterable[ast.AST]) -> bool:
    """Whether code among these nodes only means the same in its own function or class."""
    return any(
        isinstance(each, _TIED)
        or (isinstance(each, ast.Name) and each.id in ("super", "__class__"))
        or (isinstance(each, ast.Attribute) and each.attr.startswith("__"))
        for each in nodes
    )


def put_above(site: Site, place: ast.AST, lines: list[str]) -> None:
    """Note a new function above the module's statement in which a place stands."""
    top, source = top_of(site, place), site.source
    assert top is not None
    start = first_line(top)
    while start > 1 and source.line(start - 1).startswith("#"):
        start -= 1
    offset = source.line_start(start)
    site.replace(offset, offset, source.newline.join([*lines, "", "", ""]))


def top_of(site: Site, found: ast.AST) -> ast.stmt | None:
    """The module's statement around a place in a plain function, method or not."""
    scope = site.ask.scope(found)
    around = site.ask.parent(scope) if isinstance(scope, ast.FunctionDef) else None
    if isinstance(around, ast.ClassDef) and isinstance(site.ask.parent(around), ast.Module):
        return around
    return scope if isinstance(around, ast.Module) and isinstance(scope, ast.stmt) else None
