"""``logger.warning(...)`` -> the same behind ``if not torch.compiler.is_compiling():``.

Always unsafe: compiled code no longer says it. Where an ``if`` only says something, its condition
gets the guard.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Proposal
from pygraph_lint.fixes.source import FUNCTIONS
from pygraph_lint.fixes.statements import line_span, shifted

CODES = ("PG501", "PG502", "PG503", "PG209")
_REASON = "compiled code no longer prints or logs this"


def propose(proposal: Proposal) -> None:
    """Put the statement, or the ``if`` that holds nothing else, behind the guard."""
    statement = proposal.statement
    proposal.message = "Only say this when not compiling"
    says = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    proposal.need("statement", says, "the call is part of a larger expression")
    discards = isinstance(statement, ast.Expr) and says_something(proposal, statement)
    proposal.need("only-says", discards, "the statement does more than print or log")
    proposal.need(
        "in-function", _in_function(proposal), "the code runs when the module is imported"
    )
    guard(proposal, statement, _REASON)


def guard(proposal: Proposal, statement: ast.stmt, reason: str) -> None:
    """Put a statement behind ``if not torch.compiler.is_compiling():``, unsafe because of
    ``reason``.
    """
    source = proposal.source
    proposal.need("alone", source.alone(statement), "the line holds more than this statement")
    condition = f"not {use_torch(proposal)}.compiler.is_compiling()"
    proposal.safe_if("guard", False, reason)
    parent = proposal.parent(statement)
    if isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse:
        test = source.segment(parent.test)
        start, end = source.span(parent.test)
        header = source.text[source.line_start(parent.lineno) : start].strip()
        bare = header in ("if", "elif") and parent.test.end_lineno == parent.test.lineno
        if bare and not isinstance(parent.test, (ast.IfExp, ast.Lambda, ast.NamedExpr)):
            grouped = isinstance(parent.test, ast.BoolOp) and isinstance(parent.test.op, ast.Or)
            proposal.replace(
                start, end, f"{condition} and ({test})" if grouped else f"{condition} and {test}"
            )
            return
    start, end = line_span(source, statement, statement)
    body = shifted(source.text[start:end], add=source.indent_unit)
    head = f"{source.indent(statement)}if {condition}:{source.newline}"
    proposal.replace(start, end, head + body)


def says_something(proposal: Proposal, statement: ast.Expr) -> bool:
    """Whether a statement is a call of print, a logger or warnings, and nothing else."""
    call = statement.value
    if not isinstance(call, ast.Call):
        return False
    name = proposal.names.callee(call) or ""
    if name.startswith(("logging.", "warnings.")):
        return True
    if isinstance(call.func, ast.Name):
        return call.func.id in ("print", "pprint") and not proposal.names.taken(call.func.id)
    if isinstance(call.func, ast.Attribute):
        event = proposal.finding.event
        return call.func.attr in _LOG_METHODS or (event is not None and event.kind == "effect.log")
    return False


_LOG_METHODS = frozenset(
    (
        *("debug", "info", "warning", "warn", "error", "critical", "exception", "log"),
        *("warning_once", "info_once", "warning_advice"),
    )
)


def _in_function(proposal: Proposal) -> bool:
    return any(isinstance(node, FUNCTIONS) for node in proposal.path)
