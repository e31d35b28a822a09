"""Ask for gradients only outside compiled code.

    x.requires_grad = True  ->  if not torch.compiler.is_compiling(): x.requires_grad = True

Always unsafe: compiled code no longer records gradients for that tensor.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.guards import guard
from pygraph_lint.fixes.site import Rewrite, Site


class GuardEffect(Rewrite):
    """PG508: ``requires_grad = True``, ``requires_grad_()``."""

    codes = ("PG508",)
    message = "Ask for gradients only when not compiling"
    order = 80
    in_strings = True

    def rewrite(self, site: Site) -> None:
        statement = site.statement
        site.require("statement", _asks(statement), "the tensor is used in the same expression")
        guard(
            site,
            statement,
            _asks,
            "compiled code no longer records gradients for this tensor",
        )


def _asks(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        single = len(statement.targets) == 1 and isinstance(statement.value, ast.Constant)
        return single and isinstance(target, ast.Attribute) and target.attr == "requires_grad"
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return False
    called = statement.value.func
    return isinstance(called, ast.Attribute) and called.attr == "requires_grad_"
