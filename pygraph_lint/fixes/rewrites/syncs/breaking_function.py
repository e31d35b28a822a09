"""A function in which the graph ends in a loop, or again and again, is left out of compiled code.

    def solve(self, t, end):              @torch.compiler.disable(recursive=False)
        while t < end:                ->  def solve(self, t, end):
            t = self.step(t)                  ...

What the function calls is still compiled. Where the graph ends in the body of a loop, Dynamo leaves
out the whole function as well, after it tried: nothing is lost. Where it ends several times, with
little computed in between, there is one break instead, where the function is called. Where a
function computes much, only what calls it is left out, if that computes little: the graph would end
there, too; so it would in what decorators put around the function, which is left out by a decorator
above each of them. A constructor is left out with all that it calls. Unsafe: an export does not see
into it.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from pygraph_lint.fixes.engine.names import own_nodes
from pygraph_lint.fixes.engine.site import Rewrite, Site
from pygraph_lint.fixes.shared.breaking_places import (
    Path,
    behind_return,
    breaking_places,
    in_avoided_arm,
)
from pygraph_lint.fixes.shared.disable import (
    disable,
    disable_wrappers,
    is_called,
    leave_out,
    passed_to,
    plain_function,
    wrappers,
)
from pygraph_lint.fixes.shared.forwarding import few, in_body, only_called, passing_on, work
from pygraph_lint.fixes.shared.reads import only_reads

_CONSTRUCTOR = "__init__"


class BreakingFunction(Rewrite):
    """Rules of what ends the graph, in a helper."""

    codes = (
        *("PG108", "PG201", "PG202", "PG203", "PG205", "PG206", "PG207", "PG301", "PG302", "PG305"),
        *("PG306", "PG307", "PG309", "PG401", "PG402", "PG403", "PG404", "PG407"),
        *("PG504", "PG505", "PG506", "PG507", "PG510", "PG511", "PG513", "PG514", "PG520", "PG523"),
    )
    message = "Decorate the function with `@torch.compiler.disable`"
    order = 97
    early = True
    trusting = True

    def rewrite(self, site: Site) -> None:
        function, _ = plain_function(site)
        kept = only_called(site, function)
        site.require("bare", kept, "the function has decorators, which may compile it themselves")
        around, helper = wrappers(site, function), is_called(site, function)
        site.require("helper", helper or bool(around), "")
        nodes = own_nodes(function)
        yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
        site.require("returns", not yields, "a generator runs where it is used")
        places, given = breaking_places(site, function, self.codes), passed_to(site, function)
        site.require("lookup", not _by_parameter(site, site.path), "")
        # Of what only reads, its callers decide by the object whether there is something to read.
        reads = only_reads(site, function)
        found = [
            path
            for path in places
            if not in_avoided_arm(path, places, given, by_callers=reads)
            and (reads or not behind_return(path, places, given))
            and not _by_parameter(site, path)
        ]
        often = len(found) + sum(map(_is_condition, found))
        makes = function.name == _CONSTRUCTOR
        most = often * few(site, function, {path[-1] for path in places})
        little = often > 0 and (makes or work(site, function, found) <= most)
        pays = helper and (little or any(map(in_body, found)))
        callers = passing_on(site, function) if found and helper else []
        site.require("pays", pays or bool(callers) or bool(found and around), "")
        site.remains = not pays
        left_out = (function, *callers) if pays else callers
        leave_out(site)
        for each in left_out:
            disable(site, each, only_itself=each.name != _CONSTRUCTOR)
        if not pays:
            disable_wrappers(site, function)


def _by_parameter(site: Site, path: Path) -> bool:
    """Whether a place only looks up an element by a parameter: the graph goes on where that is an
    input of the region. Or multiplies with one that is sparse: who hands it on breaks the graph.
    """
    index = path[-1].slice if isinstance(path[-1], ast.Subscript) else None
    if (site.ask.callee(path[-1]) or "").startswith("torch.sparse."):
        index = next(iter(path[-1].args), None)  # type: ignore[attr-defined]
    definition = site.ask.only_definition(index) if isinstance(index, ast.Name) else None
    return definition is not None and isinstance(definition.node, ast.arg)


def _is_condition(path: Path) -> bool:
    """Whether a place is in the condition of a loop: the graph ends in front of the loop, and again
    in it.
    """
    return any(isinstance(node, ast.While) and inner is node.test for node, inner in pairwise(path))
