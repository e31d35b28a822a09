"""A branch that only raises becomes a check that the device makes, or one that is not compiled.

if x.min() < 0: torch._assert_async(~(x.min() < 0), "negative") raise ValueError("negative")

Always unsafe: the error is a RuntimeError, reported late, and on CUDA it ends the context. A
message that is computed cannot go to the device; such a check goes behind ``if not
torch.compiler.is_compiling()``.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import joined, operands
from pygraph_lint.fixes.guards import guard_condition
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import line_span, one_line, written

CODES = ("PG303",)


def propose(proposal: Proposal) -> None:
    """Check on the device where the message is plain, else only outside compiled code."""
    node = proposal.around(ast.If)
    if node is None:
        raise Declined("not an if statement")
    proposal.message = "Check on the device instead of branching"
    raises = len(node.body) == 1 and isinstance(node.body[0], ast.Raise)
    proposal.need("only-raises", raises and not node.orelse, "the branch does more than raise")
    condition = _check(proposal, node)
    message = _literal(node.body[0])
    plain = condition is not None and message is not None and not _is_elif(proposal, node)
    if not plain or not proposal.source.alone(node.body[0]):
        proposal.message = "Check values only when not compiling"
        proposal.safe_if("compiled", False, "compiled code no longer makes this check")
        guard_condition(proposal, node)
        return
    proposal.safe_if(
        "asynchronous",
        False,
        "the error becomes a RuntimeError, on CUDA a device assert that ends the context",
    )
    _assert_on_device(proposal, node, condition or "", message or "")


def _assert_on_device(proposal: Proposal, node: ast.If, condition: str, message: str) -> None:
    source = proposal.source
    check = f"{use_torch(proposal)}._assert_async({condition}, {message})"
    start, end = line_span(source, node, node)
    indent = source.indent(node)
    statics = _statics(proposal, node)
    if statics:
        head = f"{indent}if {one_line(joined(source, statics, node.test))}:{source.newline}"
        proposal.replace(start, end, head + written(proposal, indent + source.indent_unit, [check]))
    else:
        proposal.replace(start, end, written(proposal, indent, [check]))


def _is_elif(proposal: Proposal, node: ast.If) -> bool:
    return proposal.source.text.startswith("elif", proposal.source.span(node)[0])


def _tensor_operands(proposal: Proposal, node: ast.If) -> list[ast.expr]:
    """The operands of the condition that hold the finding."""
    start = proposal.source.at(proposal.finding.location)
    end = proposal.source.at(proposal.finding.end_location)
    return [
        part
        for part in operands(node.test)
        if proposal.source.span(part)[0] <= start and end <= proposal.source.span(part)[1]
    ] or ([node.test] if len(operands(node.test)) == 1 else [])


def _statics(proposal: Proposal, node: ast.If) -> list[ast.expr]:
    tensors = _tensor_operands(proposal, node)
    return [part for part in operands(node.test) if part not in tensors]


def _check(proposal: Proposal, node: ast.If) -> str | None:
    """What must hold, as a boolean tensor; None where the condition is not one."""
    tensors = _tensor_operands(proposal, node)
    if len(tensors) != 1 or not _comparison(tensors[0]):
        return None
    part = tensors[0]
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        return one_line(proposal.source.segment(part.operand))
    text = one_line(proposal.source.segment(part))
    return f"~({text})" if isinstance(part, ast.Compare) else f"~{text}"


def _comparison(node: ast.expr) -> bool:
    """A comparison with one operator, ``t.any()`` or ``t.all()``, or the negation of one."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _comparison(node.operand)
    if isinstance(node, ast.Compare):
        plain = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
        synchronous = any(
            isinstance(inner, ast.Attribute) and inner.attr in ("item", "tolist")
            for inner in ast.walk(node)
        )
        return len(node.ops) == 1 and isinstance(node.ops[0], plain) and not synchronous
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("any", "all")
    )


def _literal(statement: ast.stmt) -> str | None:
    """The message of ``raise Error("text")`` as a literal."""
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    if not isinstance(raised, ast.Call) or len(raised.args) != 1 or raised.keywords:
        return None
    message = raised.args[0]
    if not isinstance(message, ast.Constant) or not isinstance(message.value, str):
        return None
    return '"' + message.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
