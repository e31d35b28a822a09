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
import re
from itertools import pairwise

from pygraph_lint.fixes.breaking_places import Path, behind_return, breaking_places, in_avoided_arm
from pygraph_lint.fixes.decorated import disable, is_called, leave_out, plain_function
from pygraph_lint.fixes.names import all_nodes, own_nodes
from pygraph_lint.fixes.passing_on import FEW, passing_on, work
from pygraph_lint.fixes.site import Rewrite, Site

# Decorators of compilers look into the function; others call it, and of torch's these.
_COMPILERS = re.compile(r"(torch|triton|numba|jax|cupy)\b|.*(jit|compile|script|kernel|_op)$")
_KEPT = ("torch.no_grad", "torch.enable_grad", "torch.inference_mode")


class BreakingFunction(Rewrite):
    """Rules of what ends the graph, in a helper."""

    codes = (
        *("PG108", "PG201", "PG202", "PG203", "PG205", "PG206", "PG207", "PG301", "PG302", "PG305"),
        *("PG306", "PG307", "PG309", "PG401", "PG402", "PG403", "PG404", "PG407"),
        *("PG504", "PG505", "PG506", "PG507", "PG510", "PG513", "PG514", "PG520"),
    )
    message = "Decorate the function with `@torch.compiler.disable(recursive=False)`"
    order = 97
    trusting = True

    def rewrite(self, site: Site) -> None:
        function, _ = plain_function(site)
        kept = all(_only_calls(site, each) for each in function.decorator_list)
        site.require("bare", kept, "the function has decorators, which may compile it themselves")
        site.require("helper", is_called(site, function), "")
        nodes = own_nodes(function)
        yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes)
        site.require("returns", not yields, "a generator runs where it is used")
        places = breaking_places(site, function, self.codes)
        site.require("lookup", not _by_parameter(site, site.path), "")
        found = [
            path
            for path in places
            if not in_avoided_arm(path, places)
            and not behind_return(path, places)
            and not _by_parameter(site, path)
        ]
        often = len(found) + sum(map(_is_condition, found))
        little = often > 0 and work(site, function) <= FEW * often
        pays = little or any(map(_in_body, found))
        site.require("pays", pays, "")
        left_out = (function, *passing_on(site, function))
        leave_out(site, (node for each in left_out for node in all_nodes(each)))
        for each in left_out:
            disable(site, each, only_itself=True)


def _only_calls(site: Site, decorator: ast.expr) -> bool:
    """Whether a decorator calls the function, and does not look into it."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = site.ask.qualified(called) or ast.unparse(called)
    return name in _KEPT or _COMPILERS.match(name) is None


def _by_parameter(site: Site, path: Path) -> bool:
    """Whether a place only looks up an element by a parameter: the graph goes on where that is an
    input of the region.
    """
    index = path[-1].slice if isinstance(path[-1], ast.Subscript) else None
    definition = site.ask.only_definition(index) if isinstance(index, ast.Name) else None
    return definition is not None and isinstance(definition.node, ast.arg)


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
