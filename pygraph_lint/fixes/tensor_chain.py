"""A branch on a tensor whose other arms depend on settings is selected in each of them.

if t.any(): self.a = x          chosen = t.any()
elif self.kind == 1: self.a = y   if self.kind == 1: self.a = torch.where(chosen, x, y)
else: self.a = z                else: self.a = torch.where(chosen, x, z)

Takes attributes as well as names, and a plain ``else``. Unsafe: both arms are computed.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, written
from pygraph_lint.fixes.tensor_branch import BOTH_ARMS, condition_of, is_elif, split, within
from pygraph_lint.fixes.tensors import pure_expression, visibly_tensor

CODES = ("PG301",)
Arm = dict[str, ast.expr]


def propose(proposal: Proposal) -> None:
    """Name the condition, and select in each of the other arms."""
    node = proposal.around(ast.If)
    if node is None or not within(proposal, node.test) or not node.orelse:
        raise Declined("not the condition of an if with other arms")
    proposal.message = "Select with torch.where in each arm instead of branching on the tensor"
    proposal.need("not-elif", not is_elif(proposal, node), "the branch is an elif")
    tensors, statics = split(proposal, node)
    proposal.need("no-statics", not statics, "the other arms have other reasons too")
    others = _others(proposal, node)
    condition = condition_of(proposal, tensors)
    first = _arm(proposal, node.body)
    arms = [_arm(proposal, body) for _, body in others]
    same = all(list(arm) == list(first) for arm in arms)
    proposal.need("same-names", same, "the arms do not assign the same names in the same order")
    for arm in (first, *arms):
        _check(proposal, node, arm)
    proposal.safe_if("both-arms", False, BOTH_ARMS)
    _rewrite(proposal, node, condition, first, list(zip(others, arms, strict=True)))


def _others(proposal: Proposal, node: ast.If) -> list[tuple[ast.If | None, list[ast.stmt]]]:
    """The other arms: each with the ``elif`` it stands under, the last under ``else``."""
    found: list[tuple[ast.If | None, list[ast.stmt]]] = []
    rest = node.orelse
    while len(rest) == 1 and isinstance(rest[0], ast.If) and is_elif(proposal, rest[0]):
        inner = rest[0]
        static = pure_expression(proposal, inner.test)
        proposal.need("static-elif", static, "an elif calls what is not known")
        found.append((inner, inner.body))
        rest = inner.orelse
    if not rest:
        raise Declined("not every arm assigns")
    return [*found, (None, rest)]


def _arm(proposal: Proposal, block: list[ast.stmt]) -> Arm:
    """What an arm assigns, in order."""
    found: Arm = {}
    for statement in block:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        name = dotted(target) if target is not None else None
        if not isinstance(statement, ast.Assign) or name is None or len(statement.targets) > 1:
            raise Declined("an arm does more than assign names")
        alone = proposal.source.alone(statement)
        proposal.need("alone", alone, "the branch is written on one line")
        proposal.need("once", name not in found, "an arm assigns a name twice")
        found[name] = statement.value
    return found


def _check(proposal: Proposal, node: ast.If, arm: Arm) -> None:
    """Every value has to be a tensor, harmless to compute."""
    known = set(filter(None, (proposal.note("tensors") or "").split(","))) | _tested(node.test)
    for name, value in arm.items():
        harmless = pure_expression(proposal, value)
        proposal.need("pure", harmless, "an arm calls what is not known")
        tensor = visibly_tensor(proposal, value, known)
        proposal.need("tensors", tensor, f"nothing proves that all values of {name} are tensors")


def _tested(test: ast.expr) -> set[str]:
    """Names and attributes whose methods the condition calls."""
    called = [
        dotted(node.func.value)
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    ]
    return {name for name in called if name is not None and name != "torch"}


def _rewrite(
    proposal: Proposal,
    node: ast.If,
    condition: str,
    first: Arm,
    others: list[tuple[tuple[ast.If | None, list[ast.stmt]], Arm]],
) -> None:
    source = proposal.source
    indent = source.indent(node)
    chosen = proposal.names.free("chosen")
    lines = [written(proposal, indent, [f"{chosen} = {condition}"])]
    chain = len(others) > 1
    last = node.body[-1]
    inside = _comments(proposal, node.body)
    for number, ((under, body), arm) in enumerate(others):
        inside += _comments(proposal, body)
        lines += [indent + comment for comment in _between(proposal, last, body[0])]
        if chain:
            word = "else:" if under is None else f"{'elif' if number else 'if'} "
            test = "" if under is None else f"{one_line(source.segment(under.test))}:"
            lines.append(written(proposal, indent, [word + test]))
        selected = [
            f"{name} = {use_torch(proposal)}.where({chosen}, "
            f"{one_line(source.segment(first[name]))}, {one_line(source.segment(value))})"
            for name, value in arm.items()
        ]
        deeper = indent + source.indent_unit if chain else indent
        lines.append(written(proposal, deeper, selected))
        last = body[-1]
    proposal.need("no-comments", not inside, "comments inside the branch would be lost")
    start, end = line_span(source, node, last)
    proposal.replace(start, end, source.newline.join(lines))


def _comments(proposal: Proposal, body: list[ast.stmt]) -> list[str]:
    """Lines with a comment inside an arm, from its first statement on."""
    start, end = line_span(proposal.source, body[0], body[-1])
    text = proposal.source.text[start:end]
    return [line for line in text.splitlines() if "#" in line]


def _between(proposal: Proposal, last: ast.stmt, first: ast.stmt) -> list[str]:
    """The comments on lines of their own between two arms."""
    assert last.end_lineno is not None
    rows = range(last.end_lineno + 1, first.lineno)
    lines = (proposal.source.line(row).strip() for row in rows)
    return [line for line in lines if line.startswith("#")]
