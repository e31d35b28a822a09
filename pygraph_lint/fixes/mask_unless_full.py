"""A mask that is full is no longer replaced by None: telling so reads the mask back.

if cached or (mask is not None and torch.all(mask == 1)): -> if cached: mask = None mask = None

Unsafe: code behind has to treat a full mask like no mask, and then does the masking it skipped
before.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import with_parentheses
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line

CODES = ("PG301",)


def propose(proposal: Proposal) -> None:
    """Take the question whether the mask is full out of the condition."""
    node = proposal.around(ast.If)
    if node is None:
        raise Declined("not an if statement")
    proposal.message = "Keep a full mask instead of reading it to see that it is full"
    forgets = len(node.body) == 1 and _forgets(node.body[0])
    proposal.need("forgets", forgets and not node.orelse, "the branch does more than drop a mask")
    if not _full(proposal, node.test) and not _has_full(proposal, node.test):
        raise Declined("the condition does not ask whether a mask is full")
    proposal.safe_if(
        "masking", False, "what follows must treat a full mask like no mask, and now does the work"
    )
    rest = _rest(proposal, node.test, node)
    if rest is None:
        _remove(proposal, node)
        return
    start, end = with_parentheses(proposal.source, node.test, node)
    proposal.replace(start, end, one_line(rest))


def _forgets(statement: ast.stmt) -> bool:
    """``mask = None``."""
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Constant)
        and statement.value.value is None
    )


def _full(proposal: Proposal, node: ast.expr) -> bool:
    """``torch.all(mask == 1)``, ``(mask == 1).all()``, ``mask.all()``, ``not mask.any()``."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _reduction(proposal, node.operand, "any")
    return _reduction(proposal, node, "all")


def _reduction(proposal: Proposal, node: ast.expr, name: str) -> bool:
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    if proposal.names.callee(node) == f"torch.{name}":
        return len(node.args) == 1
    method = isinstance(node.func, ast.Attribute) and node.func.attr == name
    return method and not node.args and proposal.names.callee(node) is None


def _has_full(proposal: Proposal, node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp) and any(
        _full(proposal, value) or _has_full(proposal, value) for value in node.values
    )


def _rest(proposal: Proposal, test: ast.expr, inside: ast.AST) -> str | None:
    """The condition without what a full mask alone makes true; None where nothing is left."""
    if _full(proposal, test):
        return None
    if not isinstance(test, ast.BoolOp):
        start, end = with_parentheses(proposal.source, test, inside)
        return proposal.source.text[start:end]
    parts = [_rest(proposal, value, test) for value in test.values]
    kept = [part for part in parts if part is not None]
    if isinstance(test.op, ast.And):
        return " and ".join(kept) if len(kept) == len(parts) else None
    if not kept:
        return None
    return " or ".join(kept) if len(kept) > 1 else _bare(kept[0])


def _bare(text: str) -> str:
    """An operand without parentheses that are no longer needed."""
    if text.startswith("(") and text.endswith(")"):
        inner = text[1:-1]
        try:
            ast.parse(f"({inner})", mode="eval")
            return inner.strip() if inner.count("(") == inner.count(")") else text
        except SyntaxError:
            return text
    return text


def _remove(proposal: Proposal, node: ast.If) -> None:
    """Take the whole statement out."""
    source = proposal.source
    parent = proposal.parent(node)
    block = getattr(parent, "body", [])
    proposal.need("block", node in block and len(block) > 1, "the block would be left empty")
    assert node.end_lineno is not None
    start, end = source.line_start(node.lineno), source.line_start(node.end_lineno)
    proposal.replace(start, end + len(source.line(node.end_lineno)) + len(source.newline), "")
