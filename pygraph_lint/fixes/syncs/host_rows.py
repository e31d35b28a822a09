"""Read rows of numbers that a loop takes from a tensor at once.

    for t, h, w in grid: torch.arange(h)  ->  for t, h, w in grid.tolist(): torch.arange(h)

The host waits once before the loop, and not for each number in each turn. Always unsafe: what is
looped over has to be a tensor, and Python's whole numbers do not wrap.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.build import expression, operand
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site

_MAKING = frozenset(("arange", "zeros", "ones", "empty", "full", "linspace", "randn", "rand"))
_SHAPING = frozenset(("view", "reshape", "expand", "repeat", "split", "narrow", "unflatten"))


class HostRows(Rewrite):
    """PG407: a loop over the rows of a tensor of sizes."""

    codes = ("PG407",)
    message = "Read the rows at once, before the loop"
    kinds = (ast.For, ast.AsyncFor)
    order = 55

    def rewrite(self, site: Site) -> None:
        loop = site.tree
        if not isinstance(loop, ast.For) or loop.iter in site.path:
            raise Declined
        target = loop.target
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        if not parts or len(names) != len(parts):
            raise Declined
        rows = loop.iter
        single = isinstance(rows, (ast.Name, ast.Attribute)) and site.ask.is_tensor(rows)
        site.require("tensor", single, "what is looped over is not certainly a tensor")
        inside = [node for part in (*loop.body, *loop.orelse) for node in ast.walk(part)]
        sizes = [node for node in inside if isinstance(node, ast.Name) and node.id in names]
        stored = any(not isinstance(node.ctx, ast.Load) for node in sizes)
        misused = stored or not all(_is_size_use(site, node) for node in sizes)
        site.require("sizes", bool(sizes) and not misused, "a number is used for more than a size")
        again = any(ast.unparse(node) == ast.unparse(rows) for node in inside)
        site.require("only-rows", not again, f"the loop uses {ast.unparse(rows)} itself too")
        site.adds = ("PG203",)
        site.safe_only_if(
            "never",
            False,
            "sums and products of the numbers no longer wrap in the dtype of the tensor",
        )
        node = operand(site.expression_node(rows))
        site.put(rows, expression("{rows}.tolist()", rows=node))


def _is_size_use(site: Site, name: ast.AST, depth: int = 3) -> bool:
    """Whether a number, perhaps in whole arithmetic or under another name, is a size: of a new
    tensor, of a view, a bound of a slice or of a range.
    """
    node, parent = name, site.ask.parent(name)
    while isinstance(parent, (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Starred)):
        if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Div, ast.Pow, ast.MatMult)):
            return False
        node, parent = parent, site.ask.parent(parent)
    if isinstance(parent, ast.Slice):
        return True
    if isinstance(parent, ast.Assign) and depth:
        made = site.ask.definitions.definition_at(parent.targets[0])
        uses = site.ask.uses(made) if made is not None and len(parent.targets) == 1 else []
        return bool(uses) and all(_is_size_use(site, use, depth - 1) for use in uses)
    if not isinstance(parent, ast.Call) or parent.func is node:
        return False
    called = site.ask.callee(parent)
    if called is not None:
        made_so = called.startswith("torch.") and called.rpartition(".")[2] in _MAKING
        return made_so or called == "builtins.range"
    return isinstance(parent.func, ast.Attribute) and parent.func.attr in _SHAPING
