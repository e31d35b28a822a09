"""Functions that only read numbers or indices off tensors."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.control_flow.statement_graph import Function
from pygraph_lint.analysis.queries.interface import Known, Type
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
    return bool(values) and all(_is_read(site, each) for each in values)


def _is_read(site: Site, node: ast.expr, names: frozenset[str] = frozenset()) -> bool:
    """Whether an expression is such a number, or such indices, where ``names`` hold some."""
    known = site.ask.known(node)
    number = known.must_be(Type.NUMBER | Type.NONE | Type.TEXT)
    if isinstance(node, ast.Constant) or number or _is_whole(known):
        return True
    parts: list[ast.expr] = []
    if isinstance(node, (ast.Tuple, ast.List)):
        parts = node.elts
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.BinOp):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Subscript):  # a part of what was read, or an element looked up by it
        return any(_is_read(site, each, names) for each in (node.value, node.slice))
    elif isinstance(node, ast.Name):
        if node.id in names:
            return True
        parts, names = site.ask.values(node) or [], names | {node.id}
    if parts and all(_is_read(site, each, names) for each in parts):
        return True
    return isinstance(node, ast.Call) and _gives_numbers(site, node)


def _is_whole(known: Known) -> bool:
    return known.must_be(Type.TENSOR) and known.dtype == "int"


def _gives_numbers(site: Site, call: ast.Call) -> bool:
    """Whether a call reads a number, or looks for indices."""
    name, last = site.ask.callee(call), last_part(call.func)
    if name == f"builtins.{last}":
        return last in _NUMBERS
    if name is None and last in _READ:
        return True
    return last in _INDICES and (last != "where" or len(call.args) == 1) and _is_of_torch(name)


def _is_of_torch(name: str | None) -> bool:
    return name is None or name.startswith("torch.")
