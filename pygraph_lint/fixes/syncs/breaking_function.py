"""A function in which the graph ends in a loop, or again and again, is left out of compiled code.

    def solve(self, t, end):              @torch.compiler.disable(recursive=False)
        while t < end:                ->  def solve(self, t, end):
            t = self.step(t)                  ...

What the function calls is still compiled. Where the graph ends in the body of a loop, Dynamo leaves
out the whole function as well, after it tried: nothing is lost. Where it ends several times, with
little computed in between, there is one break instead, where the function is called. Unsafe: an
export does not see into it.
"""

from __future__ import annotations

import ast
from itertools import pairwise

from pygraph_lint.fixes.breaking_places import Path, behind_return, breaking_places, in_avoided_arm
from pygraph_lint.fixes.decorated import disable, is_called, leave_out, plain_function
from pygraph_lint.fixes.names import all_nodes, own_nodes
from pygraph_lint.fixes.passing_on import passing_on, work
from pygraph_lint.fixes.site import Rewrite, Site

# So many operations between two breaks cost less one by one than as a graph of their own.
_FEW = 8
# Decorators that stay outside: none of them looks into the function.
_KEPT = ("staticmethod", "torch.no_grad()", "torch.no_grad", "torch.enable_grad()")


class BreakingFunction(Rewrite):
    """Rules of what ends the graph, in a helper."""

    codes = (
        *("PG201", "PG202", "PG203", "PG205", "PG206", "PG207", "PG301", "PG302", "PG305"),
        *("PG306", "PG307", "PG309", "PG401", "PG402", "PG403", "PG404", "PG407"),
        *("PG504", "PG505", "PG506", "PG507", "PG510", "PG513", "PG514", "PG520"),
    )
    message = "Decorate the function with `@torch.compiler.disable(recursive=False)`"
    order = 97
    trusting = True

    def rewrite(self, site: Site) -> None:
        function, _ = plain_function(site)
        kept = all(ast.unparse(node) in _KEPT for node in function.decorator_list)
        site.require("bare", kept, "the function has decorators, which may depend on the order")
        site.require(
            "helper",
            is_called(site, function),
            "",
        )
        nodes = own_nodes(function)
        yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
        site.require("returns", not yields, "a generator runs where it is used")
        places = breaking_places(site, function, self.codes)
        found = [
            path
            for path in places
            if not in_avoided_arm(path, places) and not behind_return(path, places)
        ]
        often = len(found) + sum(map(_is_condition, found))
        little = often > 0 and work(site, nodes) <= _FEW * often
        pays = little or any(map(_in_body, found))
        site.require("pays", pays, "")
        left_out = (function, *passing_on(site, function))
        leave_out(site, (node for each in left_out for node in all_nodes(each)))
        for each in left_out:
            disable(site, each, only_itself=True)


def _in_body(path: Path) -> bool:
    """Whether a place is in the body of a loop."""
    return any(
        isinstance(node, (ast.For, ast.While)) and inner in node.body
        for node, inner in pairwise(path)
    )


def _is_condition(path: Path) -> bool:
    """Whether a place is in the condition of a loop: the graph ends in front of the loop, and again
    in it.
    """
    return any(isinstance(node, ast.While) and inner is node.test for node, inner in pairwise(path))
