"""A number that is computed once and kept, under a lock that Dynamo does not trace, is computed
when it is read.

@cached_property -> @property

Safe where only this file can mean the class, and sets what the number is made of in constructors
alone. Elsewhere the value follows attributes that change, and can no longer be set.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import take_import
from pygraph_lint.fixes.names import all_nodes, dotted, loads, own_nodes
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG513",)
_KEPT = "functools.cached_property"


def propose(proposal: Proposal) -> None:
    """Make it a plain property."""
    read = proposal.path[-1]
    if not isinstance(read, ast.Attribute):
        raise Declined
    proposal.message = "Compute the number when it is read: a cached property takes a lock"
    found = [
        (owner, item, decorator)
        for owner in proposal.source.tree.body
        if isinstance(owner, ast.ClassDef)
        for item in owner.body
        if isinstance(item, ast.FunctionDef) and item.name == read.attr
        for decorator in item.decorator_list
        if proposal.names.qualified(decorator) == _KEPT
    ]
    if len(found) != 1:
        raise Declined("not one cached property of that name in the file")
    owner, function, decorator = found[0]
    proposal.need("only-decorator", len(function.decorator_list) == 1, "it has other decorators")
    cheap = all(map(_arithmetic, function.body))
    proposal.need("arithmetic", cheap, "more than arithmetic on attributes is kept")
    proposal.need("never-set", not _set(proposal, read.attr), "the value is also set or deleted")
    proposal.need("property", not proposal.names.taken("property"), "property is another name here")
    steady = owner.name in proposal.finding.own and _is_steady(proposal, function)
    proposal.safe_if(
        "kept", steady, "the value follows attributes that change, and can no longer be set"
    )
    proposal.replace_node(decorator, "property")
    if isinstance(decorator, ast.Name) and len(loads(proposal.source.tree, decorator.id)) == 1:
        take_import(proposal, decorator.id)


def _is_steady(proposal: Proposal, function: ast.FunctionDef) -> bool:
    """Whether all that a property reads is its own locals, and attributes of its object that the
    file sets alone where objects are made, each its own.
    """
    inside = [node for statement in function.body for node in ast.walk(statement)]
    names = [node for node in inside if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound.add(function.args.args[0].arg if function.args.args else "")
    if any(node.id not in bound for node in names):
        return False
    read = {node.attr for node in inside if isinstance(node, ast.Attribute)}
    made = {
        node
        for maker in all_nodes(proposal.source.tree)
        if isinstance(maker, ast.FunctionDef) and maker.name == "__init__" and maker.args.args
        for node in own_nodes(maker)
        if isinstance(node, ast.Attribute) and dotted(node.value) == maker.args.args[0].arg
    }
    return all(
        node in made
        for node in all_nodes(proposal.source.tree)
        if isinstance(node, ast.Attribute)
        and node.attr in read
        and not isinstance(node.ctx, ast.Load)
    )


def _arithmetic(statement: ast.stmt) -> bool:
    """A docstring, a local name or a result that numbers, names and attributes make."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if not isinstance(statement, (ast.Assign, ast.Return)) or statement.value is None:
        return False
    allowed = (
        *(ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant, ast.Name, ast.Attribute),
        *(ast.Subscript, ast.expr_context, ast.IfExp, ast.Compare, ast.cmpop),
    )
    return all(isinstance(node, allowed) for node in ast.walk(statement.value))


def _set(proposal: Proposal, name: str) -> bool:
    """Whether an attribute of that name is set or deleted where it may be this one: on ``self`` of
    the classes around the finding and the property, or on anything but ``self``.
    """
    owners = [
        owner
        for owner in all_nodes(proposal.source.tree)
        if isinstance(owner, ast.ClassDef)
        and (owner in proposal.path or any(getattr(it, "name", "") == name for it in owner.body))
    ]
    for node in all_nodes(proposal.source.tree):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        if node.attr != name:
            continue
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        if not own or any(node in ast.walk(owner) for owner in owners):
            return True
    return False
