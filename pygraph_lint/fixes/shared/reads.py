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
    return bool(values) and all(_is_read(site, each) for each in values)


def _is_read(site: Site, node: ast.expr) -> bool:
    """Whether an expression is such a number, or such indices."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_is_read(site, each) for each in node.elts)
    if isinstance(node, ast.IfExp):
        return _is_read(site, node.body) and _is_read(site, node.orelse)
    if isinstance(node, ast.BinOp):
        return _is_read(site, node.left) and _is_read(site, node.right)
    if isinstance(node, ast.Subscript):  # a part of what was read, or an element looked up by it
        return _is_read(site, node.value) or _is_read(site, node.slice)
    if isinstance(node, ast.Name):
        values = site.ask.values(node)
        if values is not None and all(_is_read(site, each) for each in values):
            return True
    if isinstance(node, ast.Call) and _gives_numbers(site, node):
        return True
    known = site.ask.known(node)
    number = known.must_be(Type.NUMBER | Type.NONE | Type.TEXT)
    return number or (known.must_be(Type.TENSOR) and known.dtype == "int")


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
