"""A branch on a tensor becomes a selection by ``torch.where``.

Else-less updates, arms that assign the same names, and arms that return; ``and / or / not``
become their logical functions, and conditions that need no tensor's value stay Python. Always
unsafe: both arms are computed.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import joined, operands, with_parentheses
from pygraph_lint.fixes.flow import binding
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, written
from pygraph_lint.fixes.tensors import pure_expression, visibly_tensor

CODES = ("PG301", "PG307", "PG309")
BOTH_ARMS = (
    "both arms are computed: dtypes, shapes and aliases may differ from those of the arm taken,"
    " and a nan or an error in the other arm is no longer kept out"
)


def propose(proposal: Proposal) -> None:
    """Rewrite the ``if`` around the finding."""
    node = proposal.around(ast.If)
    inside = node is not None and within(proposal, node.test)
    if node is None or not inside:
        raise Declined("not the condition of an if statement")
    proposal.message = "Select with torch.where instead of branching on the tensor's values"
    proposal.need("not-elif", not is_elif(proposal, node), "the branch is an elif")
    each = all(proposal.source.alone(item) for item in [*node.body, *node.orelse])
    proposal.need("alone", each, "the branch is written on one line")
    tensors, statics = split(proposal, node)
    proposal.need("static-else", not statics or not node.orelse, "the else has other reasons too")
    condition = condition_of(proposal, tensors)
    proposal.safe_if("both-arms", False, BOTH_ARMS)
    if isinstance(node.body[-1], ast.Return):
        returns(proposal, node, condition, statics)
    else:
        assigns(proposal, node, condition, statics)


def within(proposal: Proposal, test: ast.expr) -> bool:
    """Whether the finding is inside a condition."""
    start, end = proposal.source.span(test)
    place = proposal.source.at(proposal.finding.location)
    return start <= place < end


def is_elif(proposal: Proposal, node: ast.If) -> bool:
    """Whether a branch is written as ``elif``."""
    return proposal.source.text.startswith("elif", proposal.source.span(node)[0])


def split(proposal: Proposal, node: ast.If) -> tuple[list[ast.expr], list[ast.expr]]:
    """Operands of the condition that need a tensor's value, and those that do not."""
    noted = (proposal.note("tensor") or "").split("\n")
    place = proposal.source.at(proposal.finding.location)
    tensors: list[ast.expr] = []
    statics: list[ast.expr] = []
    for part in operands(node.test):
        start, end = with_parentheses(proposal.source, part, node)
        here = start <= place < end or proposal.source.segment(part) in noted
        (tensors if here or _reads(part) else statics).append(part)
    return tensors, statics


def _reads(node: ast.expr) -> bool:
    """Whether an operand visibly reads a tensor: it reduces one."""
    return any(
        isinstance(inner, ast.Call)
        and isinstance(inner.func, ast.Attribute)
        and inner.func.attr in ("any", "all", "item", "sum", "max", "min", "mean")
        for inner in ast.walk(node)
    )


def condition_of(proposal: Proposal, tensors: list[ast.expr]) -> str:
    """One boolean tensor, true where all operands are."""
    parts = [_boolean(proposal, part) for part in tensors]
    result = parts[0]
    for part in parts[1:]:
        result = f"{use_torch(proposal)}.logical_and({result}, {part})"
    return one_line(result)


def _boolean(proposal: Proposal, node: ast.expr) -> str:
    """A boolean tensor with the truth of ``node``."""
    torch = use_torch(proposal)
    if isinstance(node, ast.BoolOp):
        word = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        parts = [_boolean(proposal, value) for value in node.values]
        result = parts[0]
        for part in parts[1:]:
            result = f"{torch}.{word}({result}, {part})"
        return result
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return f"{torch}.logical_not({_boolean(proposal, node.operand)})"
    proposal.need("pure", pure_expression(proposal, node), "the condition calls what is not known")
    proposal.need("tensor", _tensor(proposal, node), "the condition is no tensor")
    text = proposal.source.segment(node)
    if isinstance(node, ast.Compare):
        plain = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
        single = len(node.ops) == 1 and isinstance(node.ops[0], plain)
        proposal.need("one-comparison", single, "the comparison is chained, or not of values")
        return text
    named = (
        node.func.attr
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else ""
    )
    if named in ("any", "all", "isnan", "isinf", "isfinite"):
        return text
    return f"({text}) != 0"


def _tensor(proposal: Proposal, node: ast.expr) -> bool:
    """Whether an operand is a tensor: a known one is compared, one is reduced, or torch called."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    if any(visibly_tensor(proposal, side, _known(proposal)) for side in sides):
        return True
    return any(
        isinstance(inner, ast.Call)
        and (
            (proposal.names.callee(inner) or "").startswith("torch.")
            or (isinstance(inner.func, ast.Attribute) and inner.func.attr in _REDUCTIONS)
        )
        for inner in ast.walk(node)
    )


_REDUCTIONS = frozenset(("any", "all", "sum", "max", "min", "mean", "amax", "amin", "norm", "abs"))


def _known(proposal: Proposal) -> set[str]:
    return set(filter(None, (proposal.note("tensors") or "").split(",")))


def assigns(proposal: Proposal, node: ast.If, condition: str, statics: list[ast.expr]) -> None:
    """Select each name that an arm assigns; what needs no tensor's value stays an ``if``."""
    first, second = _arm(proposal, node.body), _arm(proposal, node.orelse)
    same = not node.orelse or list(first) == list(second)
    proposal.need("same-names", same, "the arms do not assign the same names in the same order")
    known = _known(proposal)
    tested = {item.id for item in ast.walk(node.test) if isinstance(item, ast.Name)}
    lines = []
    done: set[str] = set()
    for name, value in first.items():
        other = second.get(name)
        is_tensor = name in known or _both_tensors(proposal, node, name, value, other)
        proposal.need(
            "tensors", is_tensor, f"nothing proves that both values of {name} are tensors"
        )
        read = {item.id for item in ast.walk(value) if isinstance(item, ast.Name)}
        if other is not None:
            read |= {item.id for item in ast.walk(other) if isinstance(item, ast.Name)}
        proposal.need("order", not done & (read | tested), "an arm reads what it assigned before")
        lines.append(_selection(proposal, name, condition, value, other))
        done.add(name)
    _put(proposal, node, lines, statics)


def _selection(
    proposal: Proposal, name: str, condition: str, value: ast.expr, other: ast.expr | None
) -> str:
    source = proposal.source
    then = one_line(source.segment(value))
    otherwise = name if other is None else one_line(source.segment(other))
    return f"{name} = {use_torch(proposal)}.where({condition}, {then}, {otherwise})"


def _arm(proposal: Proposal, block: list[ast.stmt]) -> dict[str, ast.expr]:
    """What an arm assigns, in order."""
    found: dict[str, ast.expr] = {}
    for statement in block:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            raise Declined("an arm does more than assign names")
        once = len(statement.targets) == 1 and target.id not in found
        proposal.need("once", once, "an arm assigns a name twice")
        harmless = pure_expression(proposal, statement.value)
        proposal.need("pure", harmless, "an arm calls what is not known")
        found[target.id] = statement.value
    return found


def _both_tensors(
    proposal: Proposal, node: ast.If, name: str, value: ast.expr, other: ast.expr | None
) -> bool:
    known = _known(proposal) | _tested_tensors(node.test)
    if not visibly_tensor(proposal, value, known):
        return False
    if other is not None:
        return visibly_tensor(proposal, other, known)
    if name in known:
        return True
    before = binding(proposal, node, name)
    return before is not None and visibly_tensor(proposal, before.value, known)


def _tested_tensors(test: ast.expr) -> set[str]:
    """Names whose tensor methods the condition calls, or that torch reduces there."""
    found: set[str] = set()
    for inner in ast.walk(test):
        if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute):
            continue
        if inner.func.attr in _REDUCTIONS:
            roots = [inner.func.value, *inner.args]
            found |= {
                item.id for root in roots for item in ast.walk(root) if isinstance(item, ast.Name)
            }
    return found - {"torch"}


def returns(proposal: Proposal, node: ast.If, condition: str, statics: list[ast.expr]) -> None:
    """Select what is returned."""
    last = node.orelse or _behind(proposal, node)
    single = len(node.body) == 1 and len(last) == 1 and not statics
    proposal.need("single-return", single, "more than a return depends on the condition")
    then, otherwise = (
        item.value if isinstance(item, ast.Return) else None for item in (node.body[0], last[0])
    )
    if then is None or otherwise is None:
        raise Declined("an arm returns nothing")
    known = _known(proposal) | _tested_tensors(node.test)
    for value in (then, otherwise):
        proposal.need("pure", pure_expression(proposal, value), "an arm calls what is not known")
        tensor = visibly_tensor(proposal, value, known)
        proposal.need("returned", tensor, "nothing proves that both returned values are tensors")
    source = proposal.source
    texts = [one_line(source.segment(value)) for value in (then, otherwise)]
    line = f"return {use_torch(proposal)}.where({condition}, {texts[0]}, {texts[1]})"
    start, end = line_span(source, node, last[0])
    proposal.replace(start, end, written(proposal, source.indent(node), [line]))


def _behind(proposal: Proposal, node: ast.If) -> list[ast.stmt]:
    """The statement right behind the branch, in the same block."""
    block: list[ast.stmt] = getattr(proposal.parent(node), "body", [])
    if node not in block:
        return []
    return block[block.index(node) + 1 :][:1]


def _put(proposal: Proposal, node: ast.If, lines: list[str], statics: list[ast.expr]) -> None:
    source = proposal.source
    indent = source.indent(node)
    start, end = line_span(source, node, (node.orelse or node.body)[-1])
    comments = [line for line in source.text[start:end].splitlines() if "#" in line]
    proposal.need("no-comments", not comments, "comments inside the branch would be lost")
    if statics:
        head = f"if {one_line(joined(source, statics, node.test))}:"
        body = written(proposal, indent + source.indent_unit, lines)
        proposal.replace(start, end, written(proposal, indent, [head]) + source.newline + body)
    else:
        proposal.replace(start, end, written(proposal, indent, lines))
