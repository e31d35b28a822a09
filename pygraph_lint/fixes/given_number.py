"""A number that an object keeps as a tensor, and that code asks back, is kept as it was given too.

self.count = torch.as_tensor(count) -> self.count = ...; self.count_given = count
torch.zeros(int(index.count)) -> torch.zeros(index.count_given)
Index(count=one.count * other.count) -> Index(count=one.count_given * other.count_given)

Unsafe: an object that other code made may lack the number, its tensor may have changed, and a
number that is not whole is no longer cut off.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.names import all_nodes, dotted, own_nodes, parameters, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG201", "PG202")
_MAKERS = ("torch.tensor", "torch.as_tensor")
_SIZED = ("torch.empty", "torch.ones", "torch.zeros")


class _Kept(NamedTuple):
    """The class that keeps a tensor, the statement that does, and the parameter it is made of."""

    owner: ast.ClassDef
    maker: ast.FunctionDef
    statement: ast.Assign
    parameter: str


def propose(proposal: Proposal) -> None:
    """Read the number instead of the tensor."""
    call = proposal.path[-1]
    if not isinstance(call, ast.Call) or ast.unparse(call.func) != "int" or len(call.args) != 1:
        raise Declined("")
    read = call.args[0]
    if not isinstance(read, ast.Attribute):
        raise Declined("")
    kept = _kept(proposal, read.attr)
    proposal.message = "Keep the number beside the tensor that is made of it"
    proposal.need("builtin", not proposal.names.taken("int"), "int is another name here")
    tree = proposal.source.tree
    changed = [node for node in _reads(tree, read.attr) if not isinstance(node.ctx, ast.Load)]
    proposal.need("one-place", changed == kept.statement.targets, "it is set in other places")
    steady = len(stores(kept.maker, kept.parameter)) == 1
    proposal.need("parameter", steady, "what was given is changed before the tensor is made")
    slots = "__slots__" in map(ast.unparse, _class_targets(kept.owner))
    proposal.need("slots", not slots, "the class takes no other attributes")
    proposal.safe_if("made-here", False, "objects that other code made may lack the number")
    name = f"{read.attr}_given"
    _keep(proposal, kept, name)
    if _is_size(proposal, call):
        proposal.replace_node(call, proposal.source.segment(read) + "_given")
    else:
        _rename(proposal, read)
    for node in _passed_on(proposal, kept, read.attr):
        _rename(proposal, node)


def _rename(proposal: Proposal, read: ast.Attribute) -> None:
    _, end = proposal.source.span(read)
    proposal.replace(end, end, "_given")


def _is_size(proposal: Proposal, call: ast.Call) -> bool:
    """Whether a number is the size of a new tensor, which takes it without ``int`` too."""
    parent = proposal.parent(call)
    return (
        isinstance(parent, ast.Call)
        and call in parent.args
        and proposal.names.callee(parent) in _SIZED
    )


def _kept(proposal: Proposal, attribute: str) -> _Kept:
    """Where the file's one class makes a tensor of a parameter and keeps it as this attribute."""
    found = [
        _Kept(owner, maker, statement, statement.value.args[0].id)
        for owner in proposal.source.tree.body
        if isinstance(owner, ast.ClassDef)
        for maker in owner.body
        if isinstance(maker, ast.FunctionDef) and maker.name == "__init__"
        for statement in maker.body
        if isinstance(statement, ast.Assign)
        and [*map(ast.unparse, statement.targets)] == [f"self.{attribute}"]
        and isinstance(statement.value, ast.Call)
        and proposal.file_names.imported.get("torch") == "torch"
        and ast.unparse(statement.value.func) in _MAKERS
        and [item.arg for item in statement.value.keywords] in ([], ["device"])
        and len(statement.value.args) == 1
        and isinstance(statement.value.args[0], ast.Name)
        and statement.value.args[0].id in [item.arg for item in parameters(maker)]
    ]
    if len(found) != 1:
        raise Declined("")
    return found[0]


def _reads(tree: ast.AST, attribute: str) -> list[ast.Attribute]:
    return [
        node
        for node in all_nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr == attribute
    ]


def _class_targets(owner: ast.ClassDef) -> list[ast.expr]:
    """What a class's own statements bind."""
    return [
        target
        for node in owner.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]


def _keep(proposal: Proposal, kept: _Kept, name: str) -> None:
    """Keep what was given in the line below the tensor, unless it is there."""
    source, line = proposal.source, f"self.{name} = {kept.parameter}"
    place = kept.maker.body.index(kept.statement)
    below = kept.maker.body[place + 1 : place + 2]
    if [*map(ast.unparse, below)] == [line]:
        return
    free = not _reads(source.tree, name)
    proposal.need("free", free, f"the name {name} is used for something else")
    alone = source.alone(kept.statement)
    proposal.need("alone", alone, "the line that makes the tensor holds more")
    assert kept.statement.end_lineno is not None
    end = source.line_start(kept.statement.end_lineno)
    end += len(source.line(kept.statement.end_lineno))
    proposal.replace(end, end, f"{source.newline}{source.indent(kept.statement)}{line}")


def _passed_on(proposal: Proposal, kept: _Kept, attribute: str) -> list[ast.Attribute]:
    """Reads of the tensor that only make what another such object is given: alone or multiplied."""
    tree = proposal.source.tree
    above = parents(tree)
    found = []
    for argument in _arguments(tree, kept):
        for node in _reads(argument, attribute):
            outer: ast.AST = node
            while isinstance(above.get(outer), ast.BinOp) and outer is not argument:
                outer = above[outer]
            if outer is argument:
                found.append(node)
    return found


def _arguments(tree: ast.Module, kept: _Kept) -> list[ast.expr]:
    """What the file's code gives for the parameter, where it makes objects of the class or of a
    class below it.
    """
    names = [item.arg for item in parameters(kept.maker)][1:]
    made = [
        node
        for node in all_nodes(tree)
        if isinstance(node, ast.Call) and dotted(node.func) == kept.owner.name
    ]
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef) and kept.owner.name in map(ast.unparse, owner.bases):
            made += [
                node
                for item in owner.body
                if isinstance(item, ast.FunctionDef) and item.name == "__init__"
                for node in own_nodes(item)
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__"
            ]
    given = [
        {item.arg: item.value for item in call.keywords}.get(
            kept.parameter, dict(zip(names, call.args, strict=False)).get(kept.parameter)
        )
        for call in made
    ]
    return [value for value in given if value is not None]
