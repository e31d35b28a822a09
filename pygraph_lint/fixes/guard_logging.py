"""``logger.warning(...)`` -> the same behind ``if not torch.compiler.is_compiling():``.

Always unsafe: compiled code no longer says it. Where an ``if`` only says something, its condition
gets the guard.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.guards import guard
from pygraph_lint.fixes.proposal import Proposal

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
    guard(proposal, statement, _REASON)


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
