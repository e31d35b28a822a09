"""A call that only checks tensors' values -> the same behind the guard against compiling.

Always unsafe: compiled code no longer checks. Serves every rule whose finding lies in such a
call.
"""

from __future__ import annotations

import ast
import re

from pygraph_lint.fixes.guards import guard
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Proposal

CODES = ("PG201", "PG202", "PG209", "PG301", "PG303", "PG401", "PG402", "PG403")
_CHECK = re.compile(r"(^|_)(check|assert|validate|verify)(_|$)")


def propose(proposal: Proposal) -> None:
    """Put the statement behind the guard."""
    statement = proposal.statement
    proposal.message = "Check values only when not compiling"
    checks = isinstance(statement, ast.Expr) and only_checks(statement.value)
    proposal.need("only-checks", checks, "the values are used for more than a check")
    guard(proposal, statement, "compiled code no longer makes this check")


def only_checks(call: ast.expr) -> bool:
    """Whether a statement calls a function that is named after checking, and drops its result."""
    name = dotted(call.func) if isinstance(call, ast.Call) else None
    return name is not None and bool(_CHECK.search(name.rpartition(".")[2]))
