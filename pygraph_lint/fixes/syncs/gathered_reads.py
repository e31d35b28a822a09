"""A comprehension whose turns end the graph is moved to a function left out of compiled code.

    rows = [assign(c[i]) for i, c in enumerate(costs)]  ->  rows = _read_rows(costs)

Unsafe: an export does not see into the function.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.breaking_places import in_avoided_arm
from pygraph_lint.fixes.decorated import leave_out
from pygraph_lint.fixes.gathered import can_gather, gather, turns_around
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class GatheredReads(Rewrite):
    """Rules of what ends the graph, in the turns of a comprehension."""

    codes = (
        *("PG201", "PG202", "PG203", "PG205", "PG206", "PG207", "PG301"),
        *("PG401", "PG402", "PG403", "PG404", "PG407", "PG507", "PG510", "PG523"),
    )
    message = "Move the comprehension to a function with `@torch.compiler.disable`"
    order = 98
    trusting = True

    def rewrite(self, site: Site) -> None:
        reads = site.path[-1]
        turns = turns_around(site, reads) if isinstance(reads, ast.expr) else None
        if turns is None or site.finding.consequences.get("compile") != "break":
            raise Declined
        site.expect_compiler()
        avoided = in_avoided_arm(site.path[site.path.index(turns) :], [])
        site.require("each-turn", not avoided, "a turn may not come to what ends the graph")
        site.require("light", can_gather(site, turns, reads), "the comprehension also does work")
        torch = use_torch(site)
        leave_out(site, site.ask.nodes, not site.ask.effects(turns).unknown)
        gather(site, turns, torch)
