"""``x.requires_grad = True`` -> the same behind ``if not torch.compiler.is_compiling():``.

Always unsafe: compiled code no longer records gradients for that tensor.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.guards import guard
from pygraph_lint.fixes.proposal import Proposal

CODES = ("PG508",)


def propose(proposal: Proposal) -> None:
    """Put the statement behind the guard."""
    statement = proposal.statement
    proposal.message = "Ask for gradients only when not compiling"
    proposal.need("statement", _asks(statement), "the tensor is used in the same expression")
    guard(proposal, statement, "compiled code no longer records gradients for this tensor")


def _asks(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        single = len(statement.targets) == 1 and isinstance(statement.value, ast.Constant)
        return single and isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Attribute) and called.attr == "requires_grad_"
