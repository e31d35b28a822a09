"""Compute for all elements and select, where a mask selects what is computed and written.

    x[mask] = y[mask].sin() / y[mask]
    ->  x.copy_(torch.where(mask, y.sin() / torch.where(mask, y, 1), x))

Always unsafe: it is computed for all elements. A tensor that nothing else holds gets a new value
instead of being written to.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

import libcst as cst

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.build import Line, assign, call, code, expression, operand
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.names import all_nodes, changes_in_place
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared import masks

_OPERATORS: dict[type[ast.operator], Callable[[], cst.BaseBinaryOp]] = {
    ast.Add: cst.Add,
    ast.Sub: cst.Subtract,
    ast.Mult: cst.Multiply,
    ast.Div: cst.Divide,
}


class MaskedWrite(Rewrite):
    """PG402, PG406: ``x[mask] = f(y[mask])``, ``x[mask] += 1``."""

    codes = ("PG402", "PG406")
    message = "Compute for all elements, and select with torch.where"
    kinds = (ast.Assign, ast.AugAssign)
    order = 40

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, (ast.Assign, ast.AugAssign))
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        single = not isinstance(node, ast.Assign) or len(node.targets) == 1
        if not isinstance(target, ast.Subscript) or not single:
            raise Declined
        mask, written = masks.index_of(target), target.value
        added = isinstance(node, ast.AugAssign)
        if not masks.masked_reads(node.value, mask) and not added:
            raise Declined
        site.require("mask", masks.is_mask(site, mask), "the index is not certainly a mask")
        pure = site.ask.is_pure(mask) and site.ask.is_pure(written)
        site.require("pure", pure, "the mask or the tensor is computed by what may have an effect")
        alone = masks.is_elementwise(site, node.value, mask)
        masks.expect_selectable(site, node.value, mask, written)
        operator = _OPERATORS.get(type(node.op)) if isinstance(node, ast.AugAssign) else None
        plain = alone and (operator is not None or not added)
        site.require("elementwise", plain, "what is written is not computed element by element")
        kept = _is_kept(site, node, written, mask) or _changes_later(site, node, mask)
        site.require("unsaved", not kept, "gradients need the tensor as it was before the write")
        site.safe_only_if(
            "everywhere",
            False,
            "it is computed for all elements: rounding and zero gradients may differ (also nan)",
        )
        lines: list[Line] = []
        selected = site.expression_node(mask)
        if not masks.has_shape_of(site, mask, written):
            lines, selected = _widened(site, node.value, mask, written)
        value = masks.everywhere(site, node.value, mask, selected)
        old = site.expression_node(written)
        if operator is not None:
            right = value if isinstance(value, cst.UnaryOperation) else operand(value)
            value = cst.BinaryOperation(operand(old), operator(), right)
        chosen = call(f"{use_torch(site)}.where", selected, value, old)
        site.put_statements([node], [*lines, _written(site, written, old, chosen)])


def _is_kept(
    site: Site, node: ast.Assign | ast.AugAssign, written: ast.expr, mask: ast.expr
) -> bool:
    """Whether a tensor that is written in place is itself worked on by what is not linear: autograd
    then keeps it, and refuses it when it has changed.
    """
    if isinstance(written, ast.Name) and site.ask.is_unaliased(written):
        return False
    reads = masks.masked_reads(node.value, mask)
    own = any(ast.dump(each.value) == ast.dump(written).replace("Store", "Load") for each in reads)
    number = site.ask.known(node.value).must_be(Type.NUMBER)
    if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Mult, ast.Div)) and not number:
        return True
    linear = (ast.Add, ast.Sub)
    return own and any(
        isinstance(each, ast.Call)
        or (isinstance(each, ast.BinOp) and not isinstance(each.op, linear))
        for each in ast.walk(node.value)
    )


def _changes_later(site: Site, node: ast.Assign | ast.AugAssign, mask: ast.expr) -> bool:
    """Whether what is read, or the mask, is changed in place somewhere else: autograd keeps it as
    it is, where it kept copies of what the mask selects.
    """
    read = [each.value for each in masks.masked_reads(node.value, mask)]
    names = {dotted(each) for each in (*read, mask)} - {None}
    own = set(ast.walk(node))
    return any(
        changes_in_place(each, name or "")
        for name in names
        for each in all_nodes(site.function or site.source.tree)
        if each not in own
    )


def _widened(
    site: Site, value: ast.expr, mask: ast.expr, written: ast.expr
) -> tuple[list[Line], cst.BaseExpression]:
    """The mask in the shape of what is written to, and the statements that it needs: a name of its
    own where ``value`` asks for it, too.
    """
    name = mask.id if isinstance(mask, ast.Name) else site.free("selected")
    named: list[Line] = []
    if not isinstance(mask, ast.Name):
        named.append(assign(name, site.expression_node(mask)))
    wide = masks.widened(name, ast.unparse(written))
    if code(wide) not in code(masks.everywhere(site, value, mask, wide)):
        return named, wide
    own = site.free("selected")
    return [*named, assign(own, wide)], cst.Name(own)


def _written(
    site: Site, written: ast.expr, old: cst.BaseExpression, chosen: cst.BaseExpression
) -> Line:
    """``x = chosen``, or ``x.copy_(chosen)`` where others may hold the tensor."""
    if isinstance(written, ast.Name) and site.ask.is_unaliased(written):
        return assign(written.id, chosen)
    copied = expression("{x}.copy_({value})", x=operand(old), value=chosen)
    return cst.SimpleStatementLine([cst.Expr(copied)])
