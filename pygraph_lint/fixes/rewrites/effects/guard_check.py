"""Check tensors' values only outside compiled code.

    check_values(x)  ->  if not torch.compiler.is_compiling(): check_values(x)

Always unsafe: compiled code no longer checks. Serves every rule whose finding lies in a call that
is named after checking, and whose result is dropped.
"""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.site import Rewrite, Site
from pygraph_lint.fixes.shared.guards import guard

_CHECK = re.compile(r"(^|_)(check|assert|validate|verify)(_|$)", re.IGNORECASE)


class GuardCheck(Rewrite):
    """PG2xx to PG4xx: ``check_...(...)``, ``assert_...(...)``."""

    codes = ("PG201", "PG202", "PG209", "PG301", "PG303", "PG401", "PG402", "PG403")
    message = "Check values only when not compiling"
    order = 90
    in_strings = True

    def rewrite(self, site: Site) -> None:
        statement = site.statement
        site.require("only-checks", _only_checks(statement), "")
        guard(site, statement, _only_checks, "compiled code no longer makes this check")


def _only_checks(statement: ast.stmt) -> bool:
    """Whether a statement calls a function that is named after checking, and drops its result."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    name = dotted(call.func) if isinstance(call, ast.Call) else None
    return name is not None and bool(_CHECK.search(name.rpartition(".")[2]))
