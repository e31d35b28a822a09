"""A step that is only taken if a tensor's value says so is always computed, and then selected.

if mask is not None and mask.sum().item() < n: count = count + 1

becomes if mask is not None: chosen = mask.sum() < n; chosen_count = count + 1; count =
torch.where(chosen, chosen_count, count)

What an ``elif`` does instead is done before the selection. Unsafe: the step is always computed, and
numbers become tensors.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.conditions import joined, operands
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import loads, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, shifted, written
from pygraph_lint.fixes.tensor_branch import BOTH_ARMS, is_elif, within
from pygraph_lint.fixes.tensors import pure_expression, used_as_tensor, visibly_tensor

CODES = ("PG201",)
_COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


class _Step(NamedTuple):
    """What the branch assigns, in order, and the names among them that are read elsewhere."""

    node: ast.If
    function: ast.FunctionDef
    assigned: dict[str, ast.Assign]
    kept: list[str]


def propose(proposal: Proposal) -> None:
    """Compute under other names, and select."""
    node, function = proposal.around(ast.If), proposal.function
    if node is None or not isinstance(function, ast.FunctionDef) or not within(proposal, node.test):
        raise Declined
    test = _tested(proposal, node)
    if test is None or is_elif(proposal, node):
        raise Declined
    proposal.message = "Compute the step in any case, and select it with torch.where"
    statics = [part for part in operands(node.test) if part is not test]
    if not statics:
        raise Declined("the branch depends on nothing but the tensor")
    step = _step(proposal, node, function)
    found = compared_item(test)
    assert found is not None
    harmless = all(pure_expression(proposal, item.value) for item in step.assigned.values())
    harmless = harmless and pure_expression(proposal, found[0])
    proposal.need("pure", harmless, "the branch calls what is not known")
    before = all(_bound_before(function, node, name) for name in step.kept)
    proposal.need("bound", before, "a name is only bound in the branch")
    proposal.need(
        "selectable",
        all(_selectable(proposal, step, name) for name in step.kept),
        "a value is neither a tensor nor a number that only goes into arithmetic",
    )
    proposal.safe_if("both-arms", False, f"{BOTH_ARMS}; a number becomes a tensor")
    _rewrite(proposal, step, test, statics)


def _tested(proposal: Proposal, node: ast.If) -> ast.Compare | None:
    """The operand ``t.item() < number`` that holds the finding."""
    place = proposal.source.at(proposal.finding.location)
    for part in operands(node.test):
        start, end = proposal.source.span(part)
        if start <= place < end and isinstance(part, ast.Compare) and compared_item(part):
            return part
    return None


def compared_item(test: ast.expr) -> tuple[ast.expr, ast.Call] | None:
    """``t`` and ``t.item()`` of one comparison ``t.item() < number``."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    reads = [side for side in (test.left, *test.comparators) if _is_item(side)]
    if len(reads) != 1 or not isinstance(test.ops[0], _COMPARED):
        return None
    read = reads[0]
    assert isinstance(read, ast.Call) and isinstance(read.func, ast.Attribute)
    return read.func.value, read


def _is_item(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "item"
        and not node.args
    )


def _step(proposal: Proposal, node: ast.If, function: ast.FunctionDef) -> _Step:
    assigned: dict[str, ast.Assign] = {}
    for statement in node.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            raise Declined("the branch does more than assign names")
        once = len(statement.targets) == 1 and target.id not in assigned
        proposal.need("once", once, "the branch assigns a name twice")
        proposal.need("alone", proposal.source.alone(statement), "it is written on one line")
        assigned[target.id] = statement
    simple = not node.orelse or _plain_elif(proposal, node) is not None
    proposal.need("simple-else", simple, "there is more than one other arm")
    inside = {inner for statement in node.body for inner in ast.walk(statement)}
    kept = [
        name
        for name in assigned
        if any(read not in inside for read in loads(function, name))
        or len(stores(function, name)) > 1
    ]
    return _Step(node, function, assigned, kept)


def _plain_elif(proposal: Proposal, node: ast.If) -> ast.If | None:
    """The only other arm, if it is an ``elif`` whose condition needs no tensor."""
    other = node.orelse[0] if len(node.orelse) == 1 else None
    if not isinstance(other, ast.If) or other.orelse or not is_elif(proposal, other):
        return None
    calls = any(isinstance(inner, ast.Call) for inner in ast.walk(other.test))
    return None if calls else other


def _bound_before(function: ast.FunctionDef, node: ast.If, name: str) -> bool:
    return any(
        isinstance(store, ast.arg) or getattr(store, "lineno", node.lineno) < node.lineno
        for store in stores(function, name)
    )


def _selectable(proposal: Proposal, step: _Step, name: str) -> bool:
    """Whether a name holds a tensor, or a number that is only added, multiplied and so on."""
    value = step.assigned[name].value
    tensor = used_as_tensor(proposal, ast.Name(name, ast.Load()))
    if tensor or visibly_tensor(proposal, value, set()):
        return tensor
    operands_of = {
        side
        for inner in ast.walk(step.function)
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, _ARITHMETIC)
        for side in (inner.left, inner.right)
    }
    arithmetic = isinstance(value, ast.BinOp) and isinstance(value.op, _ARITHMETIC)
    later = [read for read in loads(step.function, name) if read.lineno > step.node.lineno]
    return arithmetic and all(read in operands_of for read in later)


def _rewrite(proposal: Proposal, step: _Step, test: ast.Compare, statics: list[ast.expr]) -> None:
    source = proposal.source
    node = step.node
    torch = use_torch(proposal)
    first, last = node.body[0], node.body[-1]
    inner = source.indent(first)
    found = compared_item(test)
    assert found is not None
    tensor, read = found
    start, end = source.span(test)
    low, high = source.span(read)
    text = source.text[start:low] + source.segment(tensor) + source.text[high:end]
    chosen = proposal.names.free("chosen")
    head = [f"if {one_line(joined(source, statics, node.test))}:"]
    lines = [f"{chosen} = {one_line(text)}"]
    header = written(proposal, source.indent(node), head) + source.newline
    header += written(proposal, inner, lines)
    opened = source.line_start(_header_end(proposal, node) + 1) - len(source.newline)
    proposal.need(
        "no-comments",
        "#" not in source.text[source.line_start(node.lineno) : opened],
        "comments beside the condition would be lost",
    )
    proposal.replace(source.line_start(node.lineno), opened, header)
    renamed = {name: proposal.names.free(f"chosen_{name}") for name in step.kept}
    for statement in node.body:
        for used in ast.walk(statement):
            if isinstance(used, ast.Name) and used.id in renamed:
                made = step.assigned[used.id]
                if isinstance(used.ctx, ast.Store) or statement.lineno > made.lineno:
                    proposal.replace_node(used, renamed[used.id])
    selections = [
        f"{name} = {torch}.where({chosen}, {fresh}, {name})" for name, fresh in renamed.items()
    ]
    done = source.newline + written(proposal, inner, selections)
    other = _plain_elif(proposal, node)
    if other is not None:
        done = source.newline + _instead(proposal, other) + done
    assert last.end_lineno is not None
    place = source.line_start(last.end_lineno) + len(source.line(last.end_lineno))
    proposal.replace(place, place, done)


def _header_end(proposal: Proposal, node: ast.If) -> int:
    """The line on which ``if ...:`` ends."""
    line = node.test.end_lineno or node.lineno
    while not proposal.source.line(line).split("#")[0].rstrip().endswith(":"):
        line += 1
    return line


def _instead(proposal: Proposal, other: ast.If) -> str:
    """What the ``elif`` does, as an ``if`` one step further in."""
    source = proposal.source
    start, end = line_span(source, other, other)
    text = source.text[start:end].replace("elif", "if", 1)
    return shifted(text, add=source.indent_unit)
