"""A comprehension that reads in each turn, moved to a function that is left out of compiled code.

    steps = [self.index_of(t) for t in times]  ->  steps = _read_steps(self, times)

Each turn ends the graph, and what is around the comprehension with it; now there is one break.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.fixes.decorated import stay_unseen
from pygraph_lint.fixes.indices import is_light
from pygraph_lint.fixes.layout import wrap
from pygraph_lint.fixes.names import all_nodes
from pygraph_lint.fixes.site import Site

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)
_SCOPES = (*_COMPREHENSIONS, ast.GeneratorExp, ast.Lambda)
# What sees the names of the function around it.
LOOKING = ("locals", "vars", "dir", "eval", "exec")
_TIED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)


def turns_around(site: Site, node: ast.expr) -> ast.expr | None:
    """The comprehension in whose turns a node stands, the only one around it."""
    around = [each for each in site.ask.path(node) if isinstance(each, _SCOPES)]
    scope = site.ask.scope(node)
    inside = [each for each in around if scope in site.ask.path(each)]
    found = inside[0] if len(inside) == 1 else None
    if not isinstance(found, _COMPREHENSIONS):
        return None
    return None if node in all_nodes(found.generators[0].iter) else found


def can_gather(site: Site, found: ast.expr, reads: ast.AST) -> bool:
    """Whether a comprehension can be moved: it does no work but ``reads`` and what is as light, and
    uses only names that a function of the module can be given.
    """
    nodes = all_nodes(found)
    others = [each for each in nodes if isinstance(each, ast.Call) and each is not reads]
    one_line = "#" not in site.source.segment(found) and '"""' not in site.source.segment(found)
    return (
        not is_tied(nodes)
        and one_line
        and top_of(site, found) is not None
        and not any(site.ask.may_be_unbound(name, found) for name in _given(site, found))
        and all(is_light(site, each) for each in others)
    )


def gather(site: Site, found: ast.expr, torch: str) -> None:
    """Move a comprehension that `can_gather` admits."""
    stay_unseen(site)
    shared, around = (ast.Nonlocal, ast.Global), all_nodes(site.ask.scope(found))
    rebound = any(isinstance(node, shared) for node in around)
    looks = any(isinstance(each, ast.Name) and each.id in LOOKING for each in around)
    site.safe_only_if(
        "names", not rebound and not looks, "the names that it reads may be bound anew meanwhile"
    )
    target = getattr(site.ask.statement(found), "targets", [None])[0]
    name = site.free(f"_read_{target.id if isinstance(target, ast.Name) else 'values'}")
    given = ", ".join(_given(site, found))
    site.replace_node(found, f"{name}({given})")
    source = site.source
    text = " ".join(line.strip() for line in source.segment(found).splitlines())
    body = wrap(f"{source.indent_unit}return {text}", source.width, source.indent_unit)
    put_above(site, found, [f"@{torch}.compiler.disable", f"def {name}({given}):", *body])


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


def _given(site: Site, found: ast.expr) -> list[str]:
    """The names of the function around a comprehension that it reads, in order."""
    names = [each for each in all_nodes(found) if isinstance(each, ast.Name)]
    names.sort(key=lambda each: (each.lineno, each.col_offset))
    bound = {each.id for each in names if not isinstance(each.ctx, ast.Load)}
    assert isinstance(found, _COMPREHENSIONS)
    outside = all_nodes(found.generators[0].iter)
    read = dict.fromkeys(each.id for each in names if each.id not in bound or each in outside)
    flow = site.ask.definitions.flow(site.ask.scope(found))
    inside = set(names)
    return [name for name in read if any(each.node not in inside for each in flow.every(name))]


def top_of(site: Site, found: ast.AST) -> ast.stmt | None:
    """The module's statement around a place in a plain function, method or not."""
    scope = site.ask.scope(found)
    around = site.ask.parent(scope) if isinstance(scope, ast.FunctionDef) else None
    if isinstance(around, ast.ClassDef) and isinstance(site.ask.parent(around), ast.Module):
        return around
    return scope if isinstance(around, ast.Module) and isinstance(scope, ast.stmt) else None
