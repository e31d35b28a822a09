"""Sum, or average, what a mask selects without selecting it.

    (x[mask] - y[mask]).abs().mean()
    ->  torch.where(mask, (x - y).abs(), 0).sum() / mask.sum()

Always unsafe: the sum has other blocks, so it rounds otherwise, and in half precision it may
overflow where the mean does not.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine import build
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared import masks

# Whatever is inside of them may be evaluated never, or several times.
_CHOOSING = (
    *(ast.Lambda, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.IfExp, ast.BoolOp),
)
_FOR_ALL = (
    "it is computed for all elements: the sum rounds otherwise, and may overflow in half, and inf "
    "and nan among those left out get into gradients; a mean of whole numbers is no error any more"
)


class MaskedReduction(Rewrite):
    """PG402: ``x[mask].mean()``, ``torch.sum(x[mask] * y[mask])``."""

    codes = ("PG402",)
    message = "Reduce under the mask, without selecting"
    kinds = (ast.Subscript,)
    order = 42

    def rewrite(self, site: Site) -> None:
        read = site.tree
        assert isinstance(read, ast.Subscript)
        call, word, reduced = _reduction(site, read)
        mask, value = masks.index_of(read), read.value
        certain = masks.is_mask(site, mask) and site.ask.is_pure(mask)
        site.require("mask", certain, "the index is not certainly a mask")
        alone = reduced is read or masks.is_elementwise(site, reduced, mask)
        site.require("elementwise", alone, "what is reduced is not computed element by element")
        masks.expect_selectable(site, reduced, mask, value)
        site.safe_only_if("rounding", False, _FOR_ALL)
        if masks.has_shape_of(site, mask, value):
            site.put(call, _reduced(site, word, reduced, mask, site.expression_node(mask)))
            return
        statement = _plain_statement(site, call)
        lines: list[build.Line] = []
        if dotted(value) is None:
            around = getattr(statement, "value", None) or statement
            first = reduced is read and site.ask.is_pure(around)
            site.require("first", first, "something with an effect may be evaluated before")
            lines.append(build.assign(site.free("values"), build.bare(site.expression_node(value))))
        name, text = site.free("selected"), dotted(value) or site.free("values")
        of = mask.id if isinstance(mask, ast.Name) else name
        if of is name:
            lines.append(build.assign(name, build.bare(site.expression_node(mask))))
        wide = build.expression(f"{{mask}}.expand_as({text})", mask=masks.widened(of, text))
        lines.append(build.assign(name, wide))
        value_node = cst.parse_expression(text) if dotted(value) is None else None
        found = _reduced(site, word, reduced, mask, cst.Name(name), value_node)
        line = site.statement_node(statement)
        if build.binds_loosely(found) and not isinstance(site.ask.parent(call), ast.stmt):
            found = build.grouped(found)
        changed = line.deep_replace(site.expression_node(call), found)
        assert isinstance(changed, cst.SimpleStatementLine)
        lines[0] = lines[0].with_changes(leading_lines=line.leading_lines)
        site.put_statements([statement], [*lines, changed.with_changes(leading_lines=())])


def _reduced(
    site: Site,
    word: str,
    reduced: ast.expr,
    mask: ast.expr,
    selected: cst.BaseExpression,
    value: cst.BaseExpression | None = None,
) -> cst.BaseExpression:
    """The sum, or the mean, under a mask of the tensor's shape."""
    parts = {"torch": cst.parse_expression(use_torch(site)), "mask": selected}
    parts["value"] = value or build.bare(masks.everywhere(site, reduced, mask, selected))
    template = "{torch}.where({mask}, {value}, 0).sum()"
    if word == "mean":
        parts["count"] = build.operand(selected)
        template += " / {count}.sum()"
    return build.expression(template, **parts)


def _plain_statement(site: Site, call: ast.Call) -> ast.stmt:
    """The statement around a call that is computed once each time it runs; a line can stand before
    it.
    """
    node: ast.AST | None = call
    while node is not None and not isinstance(node, (ast.stmt, *_CHOOSING)):
        node = site.ask.parent(node)
    plain = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
    if not isinstance(node, plain) or site.function is None:
        raise Declined("nothing proves that the mask has the tensor's shape")
    return node


def _reduction(site: Site, read: ast.Subscript) -> tuple[ast.Call, str, ast.expr]:
    """The call around a read that reduces to one number, which one it is, and of what."""
    for node in reversed(site.path[: site.path.index(read)]):
        if not isinstance(node, ast.Call) or node.keywords:
            continue
        name = site.ask.callee(node)
        word = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if word not in ("mean", "sum") or not isinstance(node.func, ast.Attribute):
            continue
        if name is None and not node.args:
            return node, word, node.func.value
        if name in ("torch.mean", "torch.sum") and len(node.args) == 1:
            return node, word, node.args[0]
    raise Declined
