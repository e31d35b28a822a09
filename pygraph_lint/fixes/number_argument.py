"""A number that goes to a helper inside a tensor, only to bound slices there, goes there as it is.

@torch.jit.script
def halves(x, count): return x[:, :count] * x[:, count:]

size = torch.IntTensor([self.size]) and halves(x, size[0]) -> halves(x, self.size), and
``count: int`` where the helper is TorchScript, which takes a parameter without annotation for a
tensor.

Unsafe: the tensor made a whole number of any number, and TorchScript refuses tensors from callers
in other files.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.host_bounds import is_bound
from pygraph_lint.fixes.names import assigned_values, loads, parents, pure, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS
from pygraph_lint.fixes.statements import one_line
from pygraph_lint.fixes.unused import take_out

CODES = ("PG407",)
_WHOLE = ("torch.IntTensor", "torch.LongTensor", "torch.tensor")


class _Argument(NamedTuple):
    """What a call passes: the argument, the tensor's name, and the statement that makes it."""

    node: ast.expr
    name: str
    function: ast.FunctionDef
    made: ast.Assign


def propose(proposal: Proposal) -> None:
    """Pass the number."""
    proposal.message = "Pass the number itself: it only bounds slices"
    function, bound = proposal.function, proposal.path[-1]
    helper = isinstance(function, ast.FunctionDef) and proposal.parent(function) is proposal.path[0]
    if not isinstance(bound, ast.Name) or not isinstance(function, ast.FunctionDef) or not helper:
        raise Declined
    inner = _read_inside(function, bound.id)
    parameter = next((item for item in function.args.args if item.arg == (inner or bound).id), None)
    if parameter is None:
        raise Declined
    above = parents(proposal.source.tree)
    reads = [*loads(function, parameter.arg), *(loads(function, bound.id) if inner else [])]
    bounds = all(read is inner or is_bound(above, read) for read in reads)
    proposal.need("bounds", bounds, f"{bound.id} is used for more than the bounds of slices")
    arguments = _arguments(proposal, function, parameter, element=inner is None)
    if not arguments:
        raise Declined(f"{parameter.arg} is not always a number put in a tensor")
    same = all(_unchanged(one) for one in arguments)
    proposal.need("unchanged", same, "the number changes before it is passed")
    proposal.safe_if(
        "whole",
        False,
        "a number that is not whole is no longer cut off, and other files may pass a tensor",
    )
    _rewrite(proposal, function, parameter, inner, arguments)


def _read_inside(function: ast.FunctionDef, name: str) -> ast.Name | None:
    """``p`` of ``name = p[0]``, if that is the name's only value."""
    values = assigned_values(function, name) or []
    value = values[0] if len(values) == 1 else None
    inside = value.value if isinstance(value, ast.Subscript) and _first(value) else None
    return inside if isinstance(inside, ast.Name) else None


def _first(node: ast.expr | None) -> bool:
    """Whether an expression is the first element of something."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Constant):
        return False
    return node.slice.value == 0


def _arguments(
    proposal: Proposal, function: ast.FunctionDef, parameter: ast.arg, element: bool
) -> list[_Argument]:
    """What the calls of the file pass; none where one of them passes something else, or where the
    helper is used otherwise.
    """
    above = parents(proposal.source.tree)
    place = function.args.args.index(parameter)
    found: list[_Argument] = []
    for use in loads(proposal.source.tree, function.name):
        call = above.get(use)
        if not isinstance(call, ast.Call) or call.func is not use or len(call.args) <= place:
            return []
        argument = _argument(proposal, call.args[place], element)
        if argument is None:
            return []
        found.append(argument)
    return found


def _argument(proposal: Proposal, node: ast.expr, element: bool) -> _Argument | None:
    above = parents(proposal.source.tree)
    named = node.value if element and _first(node) and isinstance(node, ast.Subscript) else node
    if not isinstance(named, ast.Name) or (element and named is node):
        return None
    function: ast.AST | None = named
    while function is not None and not isinstance(function, FUNCTIONS):
        function = above.get(function)
    if not isinstance(function, ast.FunctionDef):
        return None
    values = assigned_values(function, named.id) or []
    call = values[0] if len(values) == 1 else None
    made = above.get(call) if call is not None else None
    if not isinstance(made, ast.Assign) or made not in function.body:
        return None
    if not _wraps(proposal, call) or len(stores(function, named.id)) != 1:
        return None
    return _Argument(node, named.id, function, made)


def _wraps(proposal: Proposal, call: ast.expr | None) -> bool:
    """Whether a call puts one number into a tensor of one element."""
    if not isinstance(call, ast.Call) or len(call.args) != 1 or call.keywords:
        return False
    data = call.args[0]
    single = isinstance(data, ast.List) and len(data.elts) == 1 and pure(data.elts[0])
    return proposal.names.callee(call) in _WHOLE and single


def _unchanged(argument: _Argument) -> bool:
    """Whether the number is still the same where it is passed: nothing in the function sets it
    anew.
    """
    assert isinstance(argument.made.value, ast.Call)
    number = argument.made.value.args[0]
    names = {node.id for node in ast.walk(number) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(number) if isinstance(node, ast.Attribute)}
    set_anew = any(
        isinstance(node, ast.Attribute)
        and node.attr in attributes
        and not isinstance(node.ctx, ast.Load)
        for node in ast.walk(argument.function)
    )
    return not set_anew and all(len(stores(argument.function, name)) < 2 for name in names)


def _rewrite(
    proposal: Proposal,
    function: ast.FunctionDef,
    parameter: ast.arg,
    inner: ast.Name | None,
    arguments: list[_Argument],
) -> None:
    source = proposal.source
    for one in arguments:
        assert isinstance(one.made.value, ast.Call) and isinstance(one.made.value.args[0], ast.List)
        number = one_line(source.segment(one.made.value.args[0].elts[0]))
        proposal.replace_node(one.node, number)
    used = {one.made: one for one in arguments}
    for made, one in used.items():
        passed = [
            node for other in arguments if other.made is made for node in ast.walk(other.node)
        ]
        if all(read in passed for read in loads(one.function, one.name)):
            take_out(proposal, one.function.body, [made])
    if inner is not None:
        taken = parents(source.tree)[inner]
        proposal.replace_node(taken, inner.id)
    scripted = any(
        proposal.names.qualified(item) == "torch.jit.script" for item in function.decorator_list
    )
    if scripted and parameter.annotation is None:
        proposal.replace_node(parameter, f"{parameter.arg}: int")
