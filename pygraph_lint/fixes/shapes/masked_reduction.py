"""Sum, or average, what a mask selects without selecting it.

    (x[mask] - y[mask]).abs().mean()
    ->  torch.where(mask, (x - y).abs(), 0).sum() / mask.sum()

Always unsafe: the sum has other blocks, so it rounds otherwise, and in half precision it may
overflow where the mean does not.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.build import Line, assign, binds_loosely, expression, grouped, operand
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.masked import (
    as_reads,
    everywhere,
    index_of,
    is_elementwise,
    is_mask,
    widened,
)
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class MaskedReduction(Rewrite):
    """PG402: ``x[mask].mean()``, ``torch.sum(x[mask] * y[mask])``."""

    codes = ("PG402",)
    message = "Reduce under the mask, without selecting"
    kinds = (ast.Call,)
    order = 42

    def rewrite(self, site: Site) -> None:
        call, word, reduced = _reduction(site)
        reads = as_reads(reduced)
        if not reads:
            raise Declined
        mask = index_of(reads[0])
        certain = is_mask(site, mask) and site.ask.is_pure(mask)
        site.require("mask", certain, "the index is not certainly a mask")
        alone = is_elementwise(site, reduced, mask)
        site.require("elementwise", alone, "what is reduced is not computed element by element")
        site.safe_only_if("rounding", False, "the sum rounds otherwise, and may overflow in half")
        like = site.ask.shaped_like(mask)
        if like is not None and like == site.ask.shaped_like(reads[0].value):
            site.put(call, _reduced(site, word, reduced, mask, site.expression_node(mask)))
            return
        statement = _plain_statement(site, call)
        name = site.free("selected")
        wide = _wide(site, name, mask, reads[0].value)
        found = _reduced(site, word, reduced, mask, cst.Name(name))
        line = site.statement_node(statement)
        around = binds_loosely(found) and not isinstance(site.ask.parent(call), ast.stmt)
        changed = line.deep_replace(site.expression_node(call), grouped(found) if around else found)
        assert isinstance(changed, cst.SimpleStatementLine)
        wide = wide.with_changes(leading_lines=line.leading_lines)
        site.put_statements([statement], [wide, changed.with_changes(leading_lines=())])


def _reduced(
    site: Site, word: str, reduced: ast.expr, mask: ast.expr, selected: cst.BaseExpression
) -> cst.BaseExpression:
    """The sum, or the mean, under a mask of the tensor's shape."""
    parts = {"torch": cst.parse_expression(use_torch(site)), "mask": selected}
    parts["value"] = everywhere(site, reduced, mask, selected)
    template = "{torch}.where({mask}, {value}, 0).sum()"
    if word == "mean":
        parts["count"] = operand(selected)
        template += " / {count}.sum()"
    return expression(template, **parts)


def _plain_statement(site: Site, call: ast.Call) -> ast.stmt:
    """The statement around a call that is computed once each time it runs; a line can stand before
    it.
    """
    node: ast.AST | None = call
    while node is not None and not isinstance(node, ast.stmt):
        if isinstance(
            node, (ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
        ):
            break
        node = site.ask.parent(node)
    plain = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
    if not isinstance(node, plain) or site.function is None:
        raise Declined("nothing proves that the mask has the tensor's shape")
    return node


def _reduction(site: Site) -> tuple[ast.Call, str, ast.expr]:
    """The call around the finding that reduces to one number, which one it is, and of what."""
    for node in reversed(site.path):
        if not isinstance(node, ast.Call) or node.keywords:
            continue
        name = site.ask.callee(node)
        method = isinstance(node.func, ast.Attribute) and name is None and not node.args
        word = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if word in ("mean", "sum") and method and isinstance(node.func, ast.Attribute):
            return node, word, node.func.value
        if name in ("torch.mean", "torch.sum") and len(node.args) == 1:
            return node, word, node.args[0]
    raise Declined


def _wide(site: Site, name: str, mask: ast.expr, like: ast.expr) -> Line:
    """``name = ...``, the mask in the shape of the tensor."""
    if not isinstance(mask, ast.Name) or not isinstance(like, (ast.Name, ast.Attribute)):
        raise Declined("nothing proves that the mask has the tensor's shape")
    text = ast.unparse(like)
    parts = {"mask": widened(mask.id, text), "x": cst.parse_expression(text)}
    wide = expression("{mask}.expand_as({x})", **parts)
    return assign(name, wide)
