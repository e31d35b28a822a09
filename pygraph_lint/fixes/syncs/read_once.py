"""Read a value in front of a comprehension, and not for each of its elements.

    parts = [torch.split(x, lengths.tolist()) for x in (q, k, v)]
    ->  lengths_read = lengths.tolist()
        parts = [torch.split(x, lengths_read) for x in (q, k, v)]

The host waits once, and the graph ends once, in front of the statement instead of inside of a loop,
for which Dynamo leaves out the whole function. Safe where the list certainly has an element,
and nothing that may raise is evaluated before.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import dotted, method_name
from pygraph_lint.fixes.build import assign, changed
from pygraph_lint.fixes.names import changes_in_place, own_nodes, pure
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site

# What is given a list of sizes, and keeps none of it.
_SIZED = frozenset(("split", "split_with_sizes", "tensor_split", "view", "reshape", "expand"))


class ReadOnce(Rewrite):
    """PG201, PG203: a read in a list comprehension that gives the same for each element."""

    codes = ("PG201", "PG203")
    message = "Read the value once, in front of the statement"
    order = 15

    def rewrite(self, site: Site) -> None:
        call, made = site.path[-1], site.around(ast.ListComp)
        statement = site.statement
        if not isinstance(call, ast.Call) or made is None or site.function is None:
            raise Declined
        read = call.func
        if not isinstance(read, ast.Attribute) or read.attr not in ("tolist", "item") or call.args:
            raise Declined
        site.require(
            "whole",
            isinstance(statement, _PLAIN) and _is_all(site, made, statement.value),
            "the statement does more than make the list",
        )
        (*_, loop) = made.generators
        plain = len(made.generators) == 1 and not loop.ifs and _is_plain(loop.iter)
        site.require("each", plain and _is_argument(site, made, call), "not each element needs it")
        some = isinstance(loop.iter, (ast.Tuple, ast.List)) and bool(loop.iter.elts)
        first = some and _is_first(site, made, call)
        site.safe_only_if(
            "runs", first, "it is read where the list is empty or another part raises"
        )
        kept = read.attr == "tolist" and not _is_size(site, call)
        _require_one_value(site, made, read, kept)
        site.remains = True
        base = read.value.attr if isinstance(read.value, ast.Attribute) else ""
        base = read.value.id if isinstance(read.value, ast.Name) else base
        name = site.free(f"{base}_read" if base else "values_read")
        node = site.expression_node(call)
        new = cst.parse_expression(f"[*{name}]") if kept else cst.Name(name)
        line = changed(site.statement_node(statement), {node: lambda _: new})
        assert isinstance(line, cst.SimpleStatementLine)
        site.put_statements([statement], [assign(name, node), line.with_changes(leading_lines=())])


def _require_one_value(site: Site, made: ast.ListComp, read: ast.Attribute, kept: bool) -> None:
    """Each element has to read the same value, and nothing may tell whether it is read once;
    ``kept``: an element may hold the list that is read.
    """
    (loop,), call = made.generators, site.path[-1]
    assert site.function is not None
    bound = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    site.require("same", bound.isdisjoint(names), "each element reads another value")
    stays = site.ask.is_pure(call) and not _changes(made.elt, read.value)
    site.require("pure", stays, "an element is made by what changes what is read")
    known = site.ask.is_pure(made.elt)
    site.safe_only_if("known", known, "what makes an element must not change what is read")
    flat = not kept or site.ask.known(read.value).rank == 1
    site.require("kept", flat, "each element may hold the list that was read")
    listed = any(site.ask.callee(node) in _LISTING for node in own_nodes(site.function))
    site.require("unseen", not listed, "the function lists its names")
    proven = site.proven_tensor(read.value)
    site.safe_only_if("tensor", proven, "what is read has to be a tensor")


_LISTING = frozenset(f"builtins.{name}" for name in ("locals", "vars", "dir", "eval", "exec"))
_PLAIN = (ast.Assign, ast.Return, ast.AnnAssign)
# What surely evaluates its parts.
_AROUND = (
    *(ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Attribute, ast.Starred),
    *(ast.Tuple, ast.List),
)


def _is_all(site: Site, made: ast.ListComp, value: ast.expr | None) -> bool:
    """Whether a value is the list, or what functions of torch or Python make of it."""
    while isinstance(value, ast.Call) and value.args:
        known = (site.ask.callee(value) or "").startswith(("torch.", "builtins."))
        plain = all(map(pure, (*value.args[1:], *(each.value for each in value.keywords))))
        if not known or not plain:
            return False
        value = value.args[0]
    return value is made


def _changes(element: ast.expr, read: ast.expr) -> bool:
    """Whether an element is visibly made by changing what is read in place."""
    parts = {
        name for each in ast.walk(read) if isinstance(each, ast.expr) and (name := dotted(each))
    }
    return any(changes_in_place(each, name) for each in ast.walk(element) for name in parts)


def _is_plain(node: ast.expr) -> bool:
    """Whether what is looped over is a name, or is written out with names."""
    elements = node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]
    return all(map(pure, elements))


def _is_argument(site: Site, made: ast.ListComp, call: ast.Call) -> bool:
    """Whether each element evaluates the call."""
    child: ast.AST = call
    while child is not made.elt:
        parent = site.ask.parent(child)
        if parent is None or not isinstance(parent, _AROUND):
            return False
        child = parent
    return True


def _is_first(site: Site, made: ast.ListComp, call: ast.Call) -> bool:
    """Whether nothing that may raise is evaluated before the call: names, constants and known
    functions.
    """
    child: ast.AST = call
    while child is not made.elt:
        parent = site.ask.parent(child)
        values: list[ast.AST] = []
        if isinstance(parent, ast.Call):
            values = [*parent.args, *parent.keywords]
            if not (site.ask.callee(parent) or "").startswith(("torch.", "builtins.")):
                return False
        elif isinstance(parent, ast.BinOp):
            values = [parent.left, parent.right]
        elif not isinstance(parent, ast.keyword):
            return False
        before = values[: values.index(child)] if child in values else []
        if not all(isinstance(each, (ast.Name, ast.Constant)) for each in before):
            return False
        assert parent is not None
        child = parent
    return True


def _is_size(site: Site, call: ast.Call) -> bool:
    """Whether a list goes straight into an operation that only needs it as sizes."""
    user = site.ask.parent(call)
    user = site.ask.parent(user) if isinstance(user, ast.keyword) else user
    if not isinstance(user, ast.Call):
        return False
    name = site.ask.callee(user)
    if name is None and method_name(user):
        return method_name(user) in _SIZED
    return (name or "").startswith("torch.") and (name or "").rpartition(".")[2] in _SIZED
