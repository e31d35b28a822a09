"""A number that is computed once and kept, under a lock that Dynamo does not trace, is computed
when it is read.

@cached_property -> @property

Safe where only this file can mean the class, and sets what the number is made of, numbers too, in
constructors alone, before the number may be read. Elsewhere the value follows attributes that
change, and can no longer be set.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.imports import take_import
from pygraph_lint.fixes.names import (
    all_nodes,
    dotted,
    loads,
    own_nodes,
    parameters,
    parents,
    stores,
)
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG513",)
_KEPT = "functools.cached_property"
_LAYERS = "torch.nn."
# Attributes of torch's layers that hold numbers, or tuples of them, and that nothing else sets.
_SIZES = frozenset(
    {
        *("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups"),
        *("in_features", "out_features", "num_embeddings", "embedding_dim", "embed_dim"),
        *("num_heads", "head_dim", "input_size", "hidden_size", "num_layers", "eps"),
    }
)
_NUMBERS = ("int", "float", "bool", "str", "None")
# What can set or remove an attribute without naming it, or make an object again.
_REACHES = ("setattr", "delattr", "vars", "__dict__", "__setattr__", "__delattr__", "__setstate__")


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
    steady = owner.name in proposal.finding.own and _is_steady(proposal, owner, function)
    proposal.safe_if(
        "kept", steady, "the value follows attributes that change, and can no longer be set"
    )
    proposal.replace_node(decorator, "property")
    if isinstance(decorator, ast.Name) and len(loads(proposal.source.tree, decorator.id)) == 1:
        take_import(proposal, decorator.id)


def _is_steady(proposal: Proposal, owner: ast.ClassDef, function: ast.FunctionDef) -> bool:
    """Whether all that a property reads is its own locals, and numbers of its object that the file
    sets alone where objects are made, each its own, and before the property may be read.
    """
    inside = [node for statement in function.body for node in ast.walk(statement)]
    names = [node for node in inside if isinstance(node, ast.Name)]
    own = function.args.args[0].arg if function.args.args else ""
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | {own}
    if any(node.id not in bound for node in names):
        return False
    attributes = [node for node in inside if isinstance(node, ast.Attribute)]
    if any(dotted(node.value) != own for node in attributes):
        return False
    nodes = all_nodes(proposal.source.tree)
    read = {node.attr for node in attributes}
    sets = [
        node
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr in read
        and not isinstance(node.ctx, ast.Load)
    ]
    made = {
        node: value
        for maker in _makers(proposal)
        for node, value in _set_by(proposal, maker).items()
    }
    numbers = all(node in made and _is_number(*made[node]) for node in sets)
    bases = [proposal.names.qualified(it) or "" for it in owner.bases]
    layer = any(it.startswith(_LAYERS) and it != "torch.nn.Module" for it in bases)
    given = _SIZES if layer and not _defined(proposal) & read else frozenset()
    known = read <= {node.attr for node in sets} | given
    late = {*_REACHES}.isdisjoint(
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, (ast.Name, ast.Attribute))
    )
    return numbers and known and late and not _read_early(proposal, function.name, sets)


def _makers(proposal: Proposal) -> list[ast.FunctionDef]:
    """The constructors of the file."""
    return [
        node
        for node in all_nodes(proposal.source.tree)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__" and node.args.args
    ]


class _Value(NamedTuple):
    """What a constructor gives an attribute."""

    maker: ast.FunctionDef
    node: ast.expr


def _set_by(proposal: Proposal, maker: ast.FunctionDef) -> dict[ast.AST, _Value]:
    """The attributes of its object that a constructor plainly sets."""
    own = maker.args.args[0].arg
    found: dict[ast.AST, _Value] = {}
    for node in own_nodes(maker):
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                same = len(target.elts) == len(node.value.elts)
                pairs = list(zip(target.elts, node.value.elts, strict=True)) if same else []
            for place, value in pairs:
                if isinstance(place, ast.Attribute) and dotted(place.value) == own:
                    found[place] = _Value(maker, value)
    return found


def _is_number(maker: ast.FunctionDef, node: ast.expr) -> bool:
    """Whether a value is certainly a number or a text, or a tuple of such."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Tuple):
        return all(_is_number(maker, item) for item in node.elts)
    if isinstance(node, ast.UnaryOp):
        return _is_number(maker, node.operand)
    if isinstance(node, ast.BinOp):
        return _is_number(maker, node.left) and _is_number(maker, node.right)
    if isinstance(node, ast.IfExp):
        return _is_number(maker, node.body) and _is_number(maker, node.orelse)
    if not isinstance(node, ast.Name):
        return False
    return any(
        stores(maker, node.id) == [argument] and _says_number(argument.annotation)
        for argument in parameters(maker)
        if argument not in (maker.args.vararg, maker.args.kwarg)
    )


def _says_number(annotation: ast.expr | None) -> bool:
    """``int``, ``float | None`` and the like."""
    if isinstance(annotation, ast.BinOp):
        return _says_number(annotation.left) and _says_number(annotation.right)
    return annotation is not None and ast.unparse(annotation) in _NUMBERS


def _defined(proposal: Proposal) -> set[str]:
    """Names that classes of the file define in their bodies: others than attributes of layers."""
    bodies = [
        statement
        for owner in all_nodes(proposal.source.tree)
        if isinstance(owner, ast.ClassDef)
        for statement in owner.body
    ]
    functions = {node.name for node in bodies if isinstance(node, ast.FunctionDef)}
    return functions | {
        node.id
        for statement in bodies
        if not isinstance(statement, ast.FunctionDef)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _read_early(proposal: Proposal, name: str, sets: list[ast.Attribute]) -> bool:
    """Whether a constructor may read a property before the last of what it is made of is set."""
    methods = _defined(proposal)
    reading: set[ast.AST] = set()
    setting: set[ast.AST] = set()
    for maker in _makers(proposal):
        own = maker.args.args[0].arg
        above, inside = parents(maker), all_nodes(maker)
        lines = [
            node.lineno
            for node in inside
            if (isinstance(node, ast.Attribute) and node.attr == name)
            or (isinstance(node, ast.Attribute) and node.attr in methods and _called(above, node))
            or (isinstance(node, ast.Name) and node.id == own and not _part(above, node))
        ]
        within = [node for node in sets if node in inside]
        loops = [node for node in inside if isinstance(node, (ast.For, ast.While))]
        if any(node in ast.walk(loop) for loop in loops for node in within):
            return True
        if lines and any(node.lineno >= min(lines) for node in within):
            return True
        reading |= {maker} if lines else set()
        setting |= {maker} if within and _extends(proposal, maker) else set()
    # That of a base may be run before, on the same object.
    return any(reader is not setter for reader in reading for setter in setting)


def _extends(proposal: Proposal, maker: ast.FunctionDef) -> bool:
    """Whether the class of a constructor has a base in the file."""
    classes = [it for it in all_nodes(proposal.source.tree) if isinstance(it, ast.ClassDef)]
    names = {owner.name for owner in classes}
    return any(
        (dotted(base) or "").rpartition(".")[2] in names
        for owner in classes
        if maker in owner.body
        for base in owner.bases
    )


def _called(above: dict[ast.AST, ast.AST], node: ast.Attribute) -> bool:
    """Whether a method is called; constructors of ``super()`` are looked at as such."""
    call = above.get(node)
    base = isinstance(node.value, ast.Call) and dotted(node.value.func) == "super"
    constructor = node.attr == "__init__" and base
    return isinstance(call, ast.Call) and call.func is node and not constructor


def _part(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a name is only there for one of its attributes, or for ``super``."""
    parent = above.get(node)
    base = isinstance(parent, ast.Call) and dotted(parent.func) == "super"
    return base or isinstance(parent, ast.Attribute)


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
