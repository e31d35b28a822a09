"""Say something only outside compiled code.

    logger.warning("...")  ->  if not torch.compiler.is_compiling(): logger.warning("...")

Always unsafe: compiled code no longer says it. Where an ``if`` only says something, its condition
gets the guard.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.engine.site import Rewrite, Site
from pygraph_lint.fixes.shared.guards import guard, only_sets, says


class GuardLogging(Rewrite):
    """PG501, PG502, PG503, PG209: print, a logger, warnings."""

    codes = ("PG501", "PG502", "PG503", "PG209")
    message = "Print, log or warn only when not compiling"
    order = 70
    in_strings = True

    def rewrite(self, site: Site) -> None:
        statement = site.statement
        said = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        site.require("statement", said, "the call is part of a larger expression")
        event = site.finding.event
        logs = event is not None and event.kind == "effect.log"
        site.require(
            "only-says", says(site, statement, logs), "the statement does more than print or log"
        )
        sets = only_sets(site, statement)
        guard(
            site,
            statement,
            lambda other: says(site, other, False) and only_sets(site, other) == sets,
            "compiled code no longer sets what is warned of or logged"
            if sets
            else "compiled code no longer says this",
        )
