"""Offsets of Python numbers that only bound slices stay Python numbers.

ends = torch.tensor(lengths).cumsum(0) -> ends = list(itertools.accumulate(lengths))
for end in ends: x[:end] ...

Safe: each offset is used as a bound of a slice or a range and as nothing else, where a whole number
and a tensor of one do the same.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_module
from pygraph_lint.fixes.names import loads, own_nodes, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Function

CODES = ("PG407",)
_DIMENSIONS = (["0"], ["-1"], ["dim=0"], ["dim=-1"])


def propose(proposal: Proposal) -> None:
    """Keep the offsets on the host."""
    function = proposal.function
    bound = proposal.path[-1]
    if function is None or isinstance(function, ast.Lambda):
        raise Declined("not in a function")
    proposal.message = "Keep offsets that only bound slices Python numbers"
    names = _origins(function, bound)
    if not names:
        raise Declined("the bound is not one of a list of offsets")
    made = [_making(proposal, function, name) for name in names]
    above = parents(function)
    for name in names:
        bounds = all(_only_bounds(above, function, read) for read in loads(function, name))
        proposal.need("bounds", bounds, f"{name} is used for more than the bounds of slices")
    for call, data in made:
        text = proposal.source.segment(data)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "cumsum":
            text = f"list({use_module(proposal, 'itertools')}.accumulate({text}))"
        proposal.replace_node(call, text)


def _origins(function: Function, bound: ast.AST) -> set[str]:
    """The names of the lists that a bound, or what is bound beside it, comes from."""
    if isinstance(bound, ast.Subscript) and isinstance(bound.value, ast.Name):
        return {bound.value.id}
    if not isinstance(bound, ast.Name):
        return set()
    for loop in own_nodes(function):
        if isinstance(loop, ast.For) and bound.id in {item.id for item in _targets(loop)}:
            return {
                item.id
                for part in _iterated(loop)
                for item in [part.value if isinstance(part, ast.Subscript) else part]
                if isinstance(item, ast.Name)
            }
    return set()


def _targets(loop: ast.For) -> list[ast.Name]:
    return [item for item in ast.walk(loop.target) if isinstance(item, ast.Name)]


def _iterated(loop: ast.For) -> list[ast.expr]:
    """What a loop goes through: the arguments of zip, or the one thing."""
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "zip":
        return call.args
    return [call]


def _making(proposal: Proposal, function: Function, name: str) -> tuple[ast.Call, ast.expr]:
    """The call that makes the only value of a name, and the Python list it is made of."""
    values = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Assign) and node.targets[0] in stores(function, name)
    ]
    once = len(values) == len(stores(function, name)) == 1
    proposal.need("once", once, f"{name} has more than one value")
    made = values[0]
    call = made
    summed = made.func if isinstance(made, ast.Call) else None
    if isinstance(summed, ast.Attribute) and summed.attr == "cumsum":
        assert isinstance(made, ast.Call)
        given = [*map(ast.unparse, made.args), *map(ast.unparse, made.keywords)]
        proposal.need("flat", given in _DIMENSIONS, "the sums are not taken along a list")
        call = summed.value
    if proposal.names.callee(call) != "torch.tensor" or not isinstance(made, ast.Call):
        raise Declined(f"{name} is not made of a Python list")
    assert isinstance(call, ast.Call)
    proposal.need("plain", len(call.args) == 1 and not call.keywords, "the tensor has a dtype")
    return made, call.args[0]


def _only_bounds(above: dict[ast.AST, ast.AST], function: Function, read: ast.Name) -> bool:
    """Whether a list of offsets is indexed for a bound, or gone through for nothing but bounds."""
    node: ast.AST = read
    parent = above.get(node)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        if not isinstance(parent.slice, ast.Slice):
            return is_bound(above, parent)
        node, parent = parent, above.get(parent)
    if isinstance(parent, ast.Call):
        node, parent = parent, above.get(parent)
    if not isinstance(parent, ast.For) or parent.iter is not node:
        return False
    if not any(part is read or getattr(part, "value", None) is read for part in _iterated(parent)):
        return False
    return all(
        is_bound(above, use) for target in _targets(parent) for use in loads(function, target.id)
    )


def is_bound(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a number only ends up as a bound of a slice or of ``range``."""
    parent = above.get(node)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub)):
        node, parent = parent, above.get(parent)
    if isinstance(parent, ast.Slice):
        return True
    called = parent.func if isinstance(parent, ast.Call) else None
    return isinstance(called, ast.Name) and called.id == "range" and called is not node
