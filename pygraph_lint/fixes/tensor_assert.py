"""Asserts that torch.compile takes along: one comparison of tensors, without reading it back.

assert a.max().item() <= n and b.min() >= 0 -> assert (a.max() <= n) & (b.min() >= 0)

Unsafe: in compiled code the error becomes a RuntimeError of the device.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import operands
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line

CODES = ("PG304", "PG201", "PG202", "PG307")


def propose(proposal: Proposal) -> None:
    """Make the assertion a single boolean tensor."""
    node = proposal.around(ast.Assert)
    if node is None:
        raise Declined("the value is used outside an assert")
    proposal.message = "Assert on a tensor, which compiled code takes along"
    parts = operands(node.test)
    source = proposal.source
    changed: list[str] = []
    for part in parts:
        proposal.need("comparison", _comparison(part), "an operand is not a comparison of tensors")
        text = _without_item(proposal, part)
        changed.append(f"({text})" if len(parts) > 1 else text)
    result = " & ".join(changed)
    proposal.need("done", result != source.segment(node.test), "the assert is on a tensor already")
    constant = node.msg is None or isinstance(node.msg, ast.Constant)
    proposal.need("message", constant, "the message is computed, so the graph breaks all the same")
    proposal.safe_if(
        "compiled", False, "in compiled code the failure is a RuntimeError of the device"
    )
    proposal.replace_node(node.test, result)


def _comparison(node: ast.expr) -> bool:
    plain = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        read = node.func.value if node.func.attr == "item" and not node.args else None
        return isinstance(read, ast.Call) and _boolean(read)
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    computed = any(isinstance(inner, ast.Call) for inner in ast.walk(node))
    return computed and isinstance(node.ops[0], plain)


def _boolean(call: ast.Call) -> bool:
    """``torch.all(t)``, ``t.any()``."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in ("all", "any")


def _without_item(proposal: Proposal, node: ast.expr) -> str:
    """The comparison's source with ``.item()`` taken off."""
    start, end = proposal.source.span(node)
    text = proposal.source.text[start:end]
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr == "item"
            and not inner.args
        ):
            whole = proposal.source.segment(inner)
            text = text.replace(whole, proposal.source.segment(inner.func.value))
    return one_line(text)
