"""What a function computes for the rows a mask selects is computed everywhere, and selected.

y[inside] = f(x[inside], table[inside, :])

becomes, with ``inside = (x >= low) & (x <= high)``,

new_y = f(torch.where(inside, x, low), table)
y.copy_(torch.where(inside, new_y, y))

The function is one of the file that treats each row alone. Elsewhere it gets a number that the
mask lets through. Unsafe: more is computed, and other dtypes are converted.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.flow import binding
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.leading import Leading, is_plain
from pygraph_lint.fixes.names import all_nodes, locals_of, own_nodes, parameters, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.ranks import compared, made_like
from pygraph_lint.fixes.source import FUNCTIONS
from pygraph_lint.fixes.statements import line_span, one_line, written

CODES = ("PG402", "PG406")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_BRANCHES = 8  # each way through them is followed


class _Through(NamedTuple):
    """``name[mask]`` or ``name[mask, :]``: the node, the name, the dimensions behind the mask's."""

    node: ast.Subscript
    name: str
    behind: int


def propose(proposal: Proposal) -> None:
    """Call the function with everything, and select from what it gives."""
    statement, scope = proposal.statement, proposal.function
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or not isinstance(call, ast.Call) or scope is None:
        raise Declined
    targets = _targets(statement)
    mask = _mask(targets[0])
    outputs = [item for item in (_through(target, mask) for target in targets) if item]
    if len(outputs) != len(targets):
        raise Declined
    proposal.message = "Compute everywhere, and select through the mask"
    function = _called(proposal, call)
    given = _given(function, call)
    rows = {name: _through(value, mask) for name, value in given.items()}
    read = [item for item in rows.values() if item]
    if not read or any(item.behind for item in outputs):
        raise Declined("what is written is not computed from what the mask selects")
    looped = any(isinstance(node, _LOOPS) for node in _around(proposal, statement))
    proposal.need("once", not looped, "each turn of the loop would compute everything")
    proposal.need("alone", proposal.source.alone(statement), "the line holds more than this")
    plain = all(is_plain(value) for name, value in given.items() if not rows[name])
    proposal.need("plain", plain, "more is computed for the call than what the mask selects")
    tested = compared(proposal, statement, ast.Name(mask, ast.Load()))
    alike = all(_like(proposal, statement, item.name, tested) for item in outputs)
    proposal.need("fits", alike, "nothing shows that the mask has the shape of what is written")
    filled = [item for item in read if item.name == tested]
    proposal.need("tested", bool(filled), "what the mask tests is not passed")
    kept = {item.name for item in read if item not in filled}
    apart = not kept & {item.name for item in outputs}
    proposal.need("apart", apart, "what is written is passed, too")
    fill = _bound(proposal, statement, mask)
    names = {node.id for node in ast.walk(fill) if isinstance(node, ast.Name)}
    steady = all(len(stores(scope, name)) == 1 for name in (tested, *names) if name)
    proposal.need("steady", steady, "what the mask tests, or its bound, is set more than once")
    _follow(proposal, function, rows, len(outputs))
    proposal.safe_if(
        "everywhere",
        False,
        "all positions are computed, also those that the mask leaves out (checks see them, too),"
        " and other dtypes are converted where indexing refused them",
    )
    number = one_line(proposal.source.segment(fill))
    torch = use_torch(proposal)
    for item in read:
        chosen = f"{torch}.where({mask}, {item.name}, {number})"
        proposal.replace_node(item.node, chosen if item in filled else item.name)
    _select(proposal, statement, mask, outputs)


def _targets(statement: ast.Assign) -> list[ast.expr]:
    if len(statement.targets) != 1:
        raise Declined
    target = statement.targets[0]
    return target.elts if isinstance(target, ast.Tuple) else [target]


def _mask(target: ast.expr) -> str:
    """The name of the mask that a target is written through."""
    index = target.slice if isinstance(target, ast.Subscript) else None
    if not isinstance(index, ast.Name):
        raise Declined
    return index.id


def _through(node: ast.expr, mask: str) -> _Through | None:
    """What is read or written through the mask, if the node is that."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    first = index[0] if index else None
    if not isinstance(first, ast.Name) or first.id != mask:
        return None
    if not all(ast.unparse(item) == ":" for item in index[1:]):
        return None
    return _Through(node, node.value.id, len(index) - 1)


def _called(proposal: Proposal, call: ast.Call) -> ast.FunctionDef:
    """The function of this file that is called."""
    if not isinstance(call.func, ast.Name):
        raise Declined
    name = call.func.id
    found = [
        node
        for node in all_nodes(proposal.source.tree)
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and getattr(node, "name", "") == name
    ]
    if len(found) != 1 or found[0] not in proposal.source.tree.body:
        raise Declined("what is called is not one function of this file")
    function = found[0]
    starred = isinstance(function, ast.FunctionDef) and (
        function.args.vararg or function.args.kwarg or function.decorator_list
    )
    if not isinstance(function, ast.FunctionDef) or starred:
        raise Declined("what is called is not a plain function of this file")
    bound = any(
        isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
        for node in all_nodes(proposal.source.tree)
    )
    if bound:
        raise Declined(f"{name} is bound to something else, too")
    return function


def _given(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """What a call passes, by the parameter's name; what is left out has its default."""
    positional = [item.arg for item in (*function.args.posonlyargs, *function.args.args)]
    starred = any(isinstance(item, ast.Starred) for item in call.args)
    if starred or len(call.args) > len(positional):
        raise Declined("it is not seen what is passed")
    given = dict(zip(positional, call.args, strict=False))
    for item in call.keywords:
        if item.arg is None or item.arg in given:
            raise Declined("it is not seen what is passed")
        given[item.arg] = item.value
    return given


def _around(proposal: Proposal, statement: ast.stmt) -> list[ast.AST]:
    """The nodes of the innermost function that are around a statement."""
    found: list[ast.AST] = []
    for node in proposal.path:
        if node is statement:
            break
        found = [] if isinstance(node, FUNCTIONS) else [*found, node]
    return found


def _like(proposal: Proposal, statement: ast.stmt, name: str, tested: str | None) -> bool:
    """Whether a tensor has the shape of the one that the mask tests."""
    return tested is not None and tested in (name, made_like(proposal, statement, name))


def _follow(
    proposal: Proposal, function: ast.FunctionDef, rows: dict[str, _Through | None], count: int
) -> None:
    """Need a function that treats each row alone, and gives back a number for each."""
    path: list[ast.AST] = [proposal.source.tree, function]
    inner = Proposal(proposal.source, proposal.file_names, proposal.finding, path, proposal.without)
    behind: dict[str, int | None] = {item.arg: None for item in parameters(function)}
    behind |= {name: item.behind if item else None for name, item in rows.items()}
    branches = sum(isinstance(node, ast.If) for node in own_nodes(function))
    proposal.need("branches", branches <= _BRANCHES, f"{function.name} has too many branches")
    results = Leading(inner, behind, locals_of(function)).results(function.body)
    each = bool(results) and all(result == [0] * count for result in results)
    proposal.need("each", each, f"{function.name} does not give one number for each row")


def _bound(proposal: Proposal, statement: ast.stmt, mask: str) -> ast.expr:
    """A number that the mask's comparison lets through: the bound of ``x >= bound``."""
    made = binding(proposal, statement, mask)
    node: ast.expr | None = made.value if made is not None else None
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        node = node.left
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], (ast.GtE, ast.LtE, ast.Eq)):
        raise Declined("no number is seen that the mask lets through")
    return node.comparators[0]


def _select(proposal: Proposal, statement: ast.Assign, mask: str, outputs: list[_Through]) -> None:
    """Name what the call gives, and select from it in the lines below."""
    source, torch = proposal.source, use_torch(proposal)
    names = [proposal.names.free(f"new_{item.name}") for item in outputs]
    proposal.replace_node(statement.targets[0], ", ".join(names))
    lines = [
        f"{item.name}.copy_({torch}.where({mask}, {name}, {item.name}))"
        for item, name in zip(outputs, names, strict=True)
    ]
    _, end = line_span(source, statement, statement)
    text = written(proposal, source.indent(statement), lines)
    proposal.replace(end, end, source.newline + text)
