"""Puts statements behind ``if not torch.compiler.is_compiling():``."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import with_parentheses
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Proposal
from pygraph_lint.fixes.source import FUNCTIONS
from pygraph_lint.fixes.statements import line_span, shifted


def guard(proposal: Proposal, statement: ast.stmt, reason: str) -> None:
    """Put a statement behind the guard, unsafe because of ``reason``.

    An ``if`` that holds nothing else gets the guard as its first condition.
    """
    source = proposal.source
    inside = any(isinstance(node, FUNCTIONS) for node in proposal.path)
    proposal.need("in-function", inside, "the code runs when the module is imported")
    proposal.need("alone", source.alone(statement), "the line holds more than this statement")
    proposal.safe_if("guard", False, reason)
    parent = proposal.parent(statement)
    if isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse:
        guard_condition(proposal, parent)
        return
    condition = f"not {use_torch(proposal)}.compiler.is_compiling()"
    start, end = line_span(source, statement, statement)
    body = shifted(source.text[start:end], add=source.indent_unit)
    head = f"{source.indent(statement)}if {condition}:{source.newline}"
    proposal.replace(start, end, head + body)


def guard_condition(proposal: Proposal, node: ast.If) -> None:
    """Make the guard the first operand of a condition."""
    condition = f"not {use_torch(proposal)}.compiler.is_compiling()"
    test = node.test
    start, end = with_parentheses(proposal.source, test, node)
    grouped = start < proposal.source.span(test)[0]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and grouped:
        start = proposal.source.span(test)[0]
        proposal.replace(start, start, f"{condition} and ")
        return
    loose = isinstance(test, (ast.IfExp, ast.Lambda, ast.NamedExpr)) or (
        isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    )
    if loose and not grouped:
        proposal.replace(start, start, f"{condition} and (")
        proposal.replace(end, end, ")")
    else:
        proposal.replace(start, start, f"{condition} and ")
