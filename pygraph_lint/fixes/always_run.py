"""A layer that is dropped at random is always run, and its result is selected.

skip = self.training and draw < p out = layer(x) if not skip or synced: if self.training: out =
layer(x) x = torch.where((draw < p).to(x.device), x, out[0]) x = out[0] else: if skip: x = out[0]
out = (None, None)

Always unsafe: a dropped layer now draws its random numbers, returns its other results, and gets
zero gradients instead of none.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.conditions import joined, operands
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted, loads, own_nodes, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, shifted, written
from pygraph_lint.fixes.unused import take_out

CODES = ("PG306",)


class _Skip(NamedTuple):
    """The three statements, and what they speak of."""

    decision: ast.Assign
    branch: ast.If
    otherwise: ast.If
    statics: list[ast.expr]
    comparison: ast.expr
    name: str
    value: ast.expr


def propose(proposal: Proposal) -> None:
    """Run the layer unconditionally and select."""
    proposal.message = "Run the layer always, and select its result with torch.where"
    skip = _read(proposal)
    function = proposal.function
    if function is None:
        raise Declined("the code is not in a function")
    decided = skip.decision.targets[0]
    assert isinstance(decided, ast.Name)
    known = {*ast.walk(skip.branch.test), *ast.walk(skip.otherwise.test)}
    other = [load for load in loads(function, decided.id) if load not in known]
    proposal.need("only-here", not other, f"{decided.id} is used for more than skipping")
    alone = all(proposal.source.alone(item) for item in skip.branch.body)
    proposal.need("alone", alone, "the branch is written on one line")
    proposal.safe_if(
        "always",
        False,
        "a dropped layer now draws its random numbers, returns its other results,"
        " and gets zero gradients instead of none",
    )
    _rewrite(proposal, skip)
    _no_longer_ask(proposal, skip)


def _read(proposal: Proposal) -> _Skip:
    branch = proposal.around(ast.If)
    block: list[ast.stmt] = getattr(proposal.parent(branch), "body", []) if branch else []
    position = block.index(branch) if branch in block else 0
    if branch is None or not 0 < position < len(block) - 1 or branch.orelse:
        raise Declined("not a branch between the decision and its other half")
    decision, otherwise = block[position - 1], block[position + 1]
    if not isinstance(decision, ast.Assign) or not isinstance(otherwise, ast.If):
        raise Declined("the decision is not made right before the branch")
    name = dotted(decision.targets[0]) or ""
    if not _is_not(branch.test, name) or dotted(otherwise.test) != name or otherwise.orelse:
        raise Declined("the branches do not ask for the decision and its opposite")
    parts = operands(decision.value)
    comparison = parts[-1]
    update = branch.body[-1]
    target = update.targets[0] if isinstance(update, ast.Assign) else None
    if not isinstance(comparison, ast.Compare) or not isinstance(update, ast.Assign):
        raise Declined("the branch does not end in an assignment")
    if not isinstance(target, ast.Name) or not _is_none(otherwise):
        raise Declined("the other half does more than forget the layer's results")
    if not isinstance(update.value, ast.Subscript) or len(branch.body) != 2:
        raise Declined("the branch is not a layer's call and its first result")
    return _Skip(decision, branch, otherwise, parts[:-1], comparison, target.id, update.value)


def _is_not(test: ast.expr, name: str) -> bool:
    """``not name``, or ``not name or ...``."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        test = test.values[0]
    negated = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
    return negated and isinstance(test, ast.UnaryOp) and dotted(test.operand) == name


def _is_none(node: ast.If) -> bool:
    """``name = (None, None)`` and nothing else."""
    only = node.body[0] if len(node.body) == 1 else None
    if not isinstance(only, ast.Assign) or not isinstance(only.value, ast.Tuple):
        return False
    return all(isinstance(it, ast.Constant) and it.value is None for it in only.value.elts)


def _rewrite(proposal: Proposal, skip: _Skip) -> None:
    source = proposal.source
    indent = source.indent(skip.branch)
    first = skip.branch.body[0]
    assert skip.branch.test.end_lineno is not None
    start = source.line_start(skip.branch.test.end_lineno + 1)
    _, end = line_span(source, first, first)
    inner = source.indent(first).removeprefix(indent)
    call = shifted(source.text[start:end], remove=inner)
    comparison = one_line(source.segment(skip.comparison))
    value = one_line(source.segment(skip.value))
    dropped = f"({comparison}).to({skip.name}.device)"
    selected = f"{skip.name} = {use_torch(proposal)}.where({dropped}, {skip.name}, {value})"
    if skip.statics:
        test = one_line(joined(source, skip.statics, skip.decision.value))
        lines = [
            written(proposal, indent, [f"if {test}:"]),
            written(proposal, indent + source.indent_unit, [selected]),
            written(proposal, indent, ["else:"]),
            written(proposal, indent + source.indent_unit, [f"{skip.name} = {value}"]),
        ]
    else:
        lines = [written(proposal, indent, [selected])]
    begin, _ = line_span(source, skip.decision, skip.decision)
    _, finish = line_span(source, skip.otherwise, skip.otherwise)
    proposal.replace(begin, finish, source.newline.join([call, *lines]))


def _no_longer_ask(proposal: Proposal, skip: _Skip) -> None:
    """Take out ``synced = ...`` where only the branch asked for it: the layer runs anyhow."""
    function = proposal.function
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    test = skip.branch.test
    others = test.values[1:] if isinstance(test, ast.BoolOp) else []
    asked = {*ast.walk(test)}
    for name in {item.id for item in others if isinstance(item, ast.Name)}:
        made = [
            node
            for node in own_nodes(function)
            if isinstance(node, ast.Assign) and node.targets == stores(function, name)
        ]
        only_here = asked.issuperset(loads(function, name))
        if made and only_here and made[0] in function.body and proposal.source.alone(made[0]):
            take_out(proposal, function.body, made)
            proposal.doubts.append(f"{name} is no longer worked out")
