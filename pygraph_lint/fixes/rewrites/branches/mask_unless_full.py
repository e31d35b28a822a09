"""Keep a full mask instead of replacing it by None: telling that it is full reads it back.

    if cached or torch.all(mask == 1): mask = None  ->  if cached: mask = None

Always unsafe: code behind has to treat a full mask like no mask, and then does the masking it
skipped before.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import is_constant, negated
from pygraph_lint.fixes.engine.build import bare, joined
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.masks import reduced


class MaskUnlessFull(Rewrite):
    """PG301: ``if mask.all(): mask = None``."""

    codes = ("PG301",)
    message = "Keep a full mask instead of reading it to see that it is full"
    kinds = (ast.If,)
    order = 46

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.If)
        forgets = len(node.body) == 1 and _forgets(node.body[0]) and not node.orelse
        site.require("forgets", forgets, "the branch does more than drop a mask")
        if not _full(site, node.test) and not _has_full(site, node.test):
            raise Declined()
        site.safe_only_if(
            "masking", False, "what follows must treat a full mask like no mask, and does the work"
        )
        rest = _rest(site, node.test)
        if rest is not None:
            old = site.expression_node(node.test)
            site.put(node.test, rest if old.lpar else bare(rest), bare=True)
            return
        left = len(site.block(node)) > 1
        site.require("block", left, "the block would be left empty")
        site.put_statements([node], [])


def _forgets(statement: ast.stmt) -> bool:
    """``mask = None``."""
    return isinstance(statement, ast.Assign) and is_constant(statement.value, None)


def _full(site: Site, node: ast.expr) -> bool:
    """``torch.all(mask == 1)``, ``(mask == 1).all()``, ``mask.all()``, ``not mask.any()``."""
    inner = negated(node)
    return reduced(site, inner or node, "any" if inner is not None else "all") is not None


def _has_full(site: Site, node: ast.expr) -> bool:
    return isinstance(node, ast.BoolOp) and any(
        _full(site, value) or _has_full(site, value) for value in node.values
    )


def _rest(site: Site, test: ast.expr) -> cst.BaseExpression | None:
    """The condition without what a full mask alone makes true; None where nothing is left."""
    if _full(site, test):
        return None
    if not isinstance(test, ast.BoolOp) or not _has_full(site, test):
        return site.expression_node(test)
    parts = [_rest(site, value) for value in test.values]
    kept = [part for part in parts if part is not None]
    if not kept or (isinstance(test.op, ast.And) and len(kept) < len(parts)):
        return None
    return joined(kept, cst.And() if isinstance(test.op, ast.And) else cst.Or())
