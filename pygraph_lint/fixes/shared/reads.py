"""Functions that only read numbers or indices off tensors."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.control_flow.statement_graph import Function
from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import dotted, last_part
from pygraph_lint.fixes.engine.names import own_nodes
from pygraph_lint.fixes.engine.site import Site

_READ = frozenset(("item", "tolist"))
_NUMBERS = frozenset(("int", "float", "bool", "len"))
_INDICES = frozenset(("nonzero", "argwhere", "unique", "bincount", "unique_consecutive", "where"))


def only_reads(site: Site, function: Function) -> bool:
    """Whether all that a function returns, or sets attributes of ``self`` to, are numbers that it
    read, indices that it looked for, or elements at them.
    """
    nodes = own_nodes(function)
    found = [node.value for node in nodes if isinstance(node, ast.Return)]
    kept = [node for node in nodes if isinstance(node, ast.Assign)]
    found += [node.value for node in kept if (dotted(node.targets[0]) or "").startswith("self.")]
    values = [each for each in found if each is not None]
    known: dict[ast.expr, bool] = {}
    return bool(values) and all(_is_read(site, each, known) for each in values)


def _is_read(site: Site, node: ast.expr, known: dict[ast.expr, bool]) -> bool:
    """Whether an expression is such a number, or such indices; ``known`` are those looked at."""
    if node not in known:
        known[node] = True  # as long as it only goes round in a circle
        known[node] = _is_plain(site, node) or _is_made_of_reads(site, node, known)
    return known[node]


def _is_made_of_reads(site: Site, node: ast.expr, known: dict[ast.expr, bool]) -> bool:
    parts: list[ast.expr] = []
    if isinstance(node, (ast.Tuple, ast.List)):
        parts = node.elts
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Subscript):  # a part of what was read, or an element looked up by it
        return any(_is_read(site, each, known) for each in (node.value, node.slice))
    elif isinstance(node, ast.Name):
        parts = site.ask.values(node) or []
    return bool(parts) and all(_is_read(site, each, known) for each in parts)


def _is_plain(site: Site, node: ast.expr) -> bool:
    """Whether an expression is one by itself."""
    known = site.ask.known(node)
    number = known.must_be(Type.NUMBER | Type.NONE | Type.TEXT)
    whole = known.must_be(Type.TENSOR) and known.dtype == "int"
    given = isinstance(node, ast.Call) and _gives_numbers(site, node)
    return isinstance(node, ast.Constant) or number or whole or given


def _gives_numbers(site: Site, call: ast.Call) -> bool:
    """Whether a call reads a number, or looks for indices."""
    name, last = site.ask.callee(call), last_part(call.func)
    if name == f"builtins.{last}":
        return last in _NUMBERS
    if name is None and last in _READ:
        return True
    of_torch = name is None or name.startswith("torch.")
    return of_torch and last in _INDICES and (last != "where" or len(call.args) == 1)
