"""A layer that a loop jumps over at random is always run, and its result is selected.

for layer in layers:            for layer in layers:
    draw = torch.rand([])           draw = torch.rand([])
    if draw < p: continue           output = layer(x)
    x = layer(x)                    if p > 0:
                                        x = torch.where((draw < p).to(x.device), x, output)
                                    else: x = output

Takes ``continue`` and a flag (``drop = True``, then ``if not drop:``). Always unsafe: a dropped
layer now draws its random numbers and gets zero gradients instead of none.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.conditions import joined, operands
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import assigned_values, loads, pure
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.random_skip import asked, drawn_operand
from pygraph_lint.fixes.statements import line_span, one_line, shifted, written
from pygraph_lint.fixes.tensors import used_as_tensor, visibly_tensor

CODES = ("PG306",)


class _Skip(NamedTuple):
    """The branch that jumps, the ``if`` it is the end of, the layer's call, and all from first to
    last statement.
    """

    branch: ast.If
    outer: ast.If | None
    update: ast.Assign
    first: ast.stmt
    last: ast.stmt


def propose(proposal: Proposal) -> None:
    """Run the layer unconditionally and select."""
    proposal.message = "Run the layer in every turn, and select its result with torch.where"
    skip = _read(proposal)
    name = skip.update.targets[0]
    assert isinstance(name, ast.Name)
    parts = operands(skip.branch.test)
    if not isinstance(parts[-1], ast.Compare):
        raise Declined("the condition does not end in a comparison")
    assert proposal.function is not None
    drawn = any(_is_draw(proposal, side) for side in (parts[-1].left, *parts[-1].comparators))
    proposal.need("drawn", drawn, "it is no tensor that decides")
    carried = any(item.id == name.id for item in loads(skip.update.value, name.id))
    proposal.need("carried", carried, "the layer's result does not replace what it is given")
    values = assigned_values(proposal.function, name.id) or []
    tensor = used_as_tensor(proposal, name) or any(
        visibly_tensor(proposal, value, set()) for value in values
    )
    proposal.need("tensor", tensor, f"nothing shows that {name.id} is a tensor")
    proposal.safe_if(
        "always",
        False,
        "a dropped layer now draws its random numbers, has its other effects, and gets zero"
        " gradients instead of none",
    )
    _rewrite(proposal, skip, name.id, parts)


def _is_draw(proposal: Proposal, node: ast.expr) -> bool:
    """Whether an expression is a draw of torch, or a name that only ever holds one."""
    values: list[ast.expr] | None = [node]
    if isinstance(node, ast.Name) and proposal.function is not None:
        values = assigned_values(proposal.function, node.id)
    return bool(values) and all(
        (proposal.names.callee(value) or "").startswith("torch.") for value in values or ()
    )


def _read(proposal: Proposal) -> _Skip:
    branch = proposal.around(ast.If)
    outer = proposal.parent(branch) if branch is not None else None
    if branch is None or proposal.function is None:
        raise Declined("not a branch inside a function")
    if isinstance(outer, ast.If):
        ends = outer.body[-1] is branch and len(outer.body) > 1 and not outer.orelse
        proposal.need("ends", ends, "the branch is not the end of the if around it")
    else:
        outer = None
    holder = outer or branch
    loop = proposal.parent(holder)
    if not isinstance(loop, ast.For) or holder not in loop.body:
        raise Declined("the branch does not jump over the rest of a loop")
    at = loop.body.index(holder)
    before, rest = loop.body[at - 1] if at else None, loop.body[at + 1 :]
    first: ast.stmt = holder
    if isinstance(branch.body[0], ast.Continue):
        block = rest if not branch.orelse else branch.orelse
        proposal.need("rest", block is rest or not rest, "more than the layer's call is skipped")
    else:
        block = _under_flag(proposal, branch, before, rest)
        assert before is not None
        first = before
    if len(block) != 1 or not isinstance(block[0], ast.Assign) or len(branch.body) != 1:
        raise Declined("more than the layer's call is skipped")
    update = block[0]
    if not isinstance(update.targets[0], ast.Name) or not isinstance(update.value, ast.Call):
        raise Declined("what is skipped is not the call of a layer")
    return _Skip(branch, outer, update, first, rest[-1] if rest else holder)


def _under_flag(
    proposal: Proposal, branch: ast.If, before: ast.stmt | None, rest: list[ast.stmt]
) -> list[ast.stmt]:
    """What runs where the flag was not set, if that is all the flag does."""
    setting = branch.body[0]
    flag = setting.targets[0] if isinstance(setting, ast.Assign) else None
    cleared = before.targets[0] if isinstance(before, ast.Assign) else None
    if not isinstance(flag, ast.Name) or not isinstance(cleared, ast.Name) or branch.orelse:
        raise Declined("the branch neither continues nor sets a flag")
    assert isinstance(setting, ast.Assign) and isinstance(before, ast.Assign)
    values = [setting.value, before.value]
    told = [item.value for item in values if isinstance(item, ast.Constant)] == [True, False]
    asked = rest[0] if len(rest) == 1 and isinstance(rest[0], ast.If) else None
    if not told or cleared.id != flag.id or asked is None or asked.orelse:
        raise Declined("the flag is not cleared before the branch and asked right behind it")
    negated = isinstance(asked.test, ast.UnaryOp) and isinstance(asked.test.op, ast.Not)
    operand = asked.test.operand if isinstance(asked.test, ast.UnaryOp) else asked.test
    if not negated or not isinstance(operand, ast.Name) or operand.id != flag.id:
        raise Declined("the flag is not cleared before the branch and asked right behind it")
    function = proposal.function
    assert function is not None
    once = len(loads(function, flag.id)) == 1
    proposal.need("only-here", once, f"{flag.id} is used for more than skipping")
    return asked.body


def _rewrite(proposal: Proposal, skip: _Skip, name: str, parts: list[ast.expr]) -> None:
    source = proposal.source
    output = _fresh(proposal)
    indent = source.indent(skip.first)
    comparison = one_line(source.segment(parts[-1]))
    selected = (
        f"{name} = {use_torch(proposal)}.where(({comparison}).to({name}.device), {name}, {output})"
    )
    statics = [one_line(joined(source, parts[:-1], skip.branch.test))] if parts[1:] else []
    found = drawn_operand(proposal, skip.branch.test)
    if found is not None and pure(found[1]):
        probability = source.segment(found[1])
        if not asked(proposal, skip.branch.test, probability):
            statics.append(f"{probability} > 0")
    lines = []
    if skip.outer is not None:
        statics.insert(0, _operand(source.segment(skip.outer.test), skip.outer.test))
        start, _ = line_span(source, skip.outer, skip.outer)
        _, end = line_span(source, skip.outer, skip.outer.body[-2])
        lines.append(source.text[start:end])
    lines.append(_call(proposal, skip, indent, output))
    lines += [indent + comment for comment in _comments(proposal, skip)]
    if statics:
        deeper = indent + source.indent_unit
        lines += [
            written(proposal, indent, [f"if {' and '.join(statics)}:"]),
            written(proposal, deeper, [selected]),
            f"{indent}else:",
            f"{deeper}{name} = {output}",
        ]
    else:
        lines.append(written(proposal, indent, [selected]))
    start, end = line_span(source, skip.first, skip.last)
    proposal.replace(start, end, source.newline.join(lines))


def _operand(text: str, test: ast.expr) -> str:
    """A condition as an operand of ``and``."""
    text = one_line(text)
    loose = isinstance(test, (ast.IfExp, ast.Lambda, ast.NamedExpr)) or (
        isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    )
    return f"({text})" if loose else text


def _call(proposal: Proposal, skip: _Skip, indent: str, output: str) -> str:
    """The layer's call at the loop's own depth, its result under a name of its own."""
    source = proposal.source
    proposal.need("alone", source.alone(skip.update), "the branch is written on one line")
    start, end = line_span(source, skip.update, skip.update)
    deeper = source.indent(skip.update).removeprefix(indent)
    text = shifted(source.text[start:end], remove=deeper)
    return text.replace(source.segment(skip.update.targets[0]), output, 1)


def _comments(proposal: Proposal, skip: _Skip) -> list[str]:
    """The comments behind the condition; Declined where others would be lost."""
    source = proposal.source
    call = range(skip.update.lineno, (skip.update.end_lineno or 0) + 1)
    kept = range(0)
    if skip.outer is not None:
        kept = range(skip.outer.lineno, (skip.outer.body[-2].end_lineno or 0) + 1)
    head = range(skip.branch.lineno, skip.branch.body[0].lineno)
    found = []
    for row in range(skip.first.lineno, (skip.last.end_lineno or 0) + 1):
        _, mark, comment = source.line(row).partition("#")
        if not mark or row in call or row in kept:
            continue
        proposal.need("no-comments", row in head, "comments inside the branch would be lost")
        found.append(mark + comment)
    return found


def _fresh(proposal: Proposal) -> str:
    """A name that means nothing here yet."""
    return proposal.names.free("layer_output") if proposal.names.taken("output") else "output"
