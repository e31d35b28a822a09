"""What an arm divides by, where it is computed although it is not taken."""

from __future__ import annotations

import ast
from collections.abc import Iterable

import libcst as cst

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.fixes.engine.build import Change, call, changed
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Site


def divisors(site: Site, arms: Iterable[ast.expr]) -> list[ast.expr]:
    """What arms divide by, and may be zero where they are not taken."""
    divisions = (node for arm in arms for node in ast.walk(arm) if isinstance(node, ast.BinOp))
    found = [node.right for node in divisions if isinstance(node.op, (ast.Div, ast.Mod))]
    return [each for each in found if site.ask.known(each).may_be(Type.TENSOR)]


def divided(
    site: Site, arm: ast.expr, condition: cst.BaseExpression, taken: bool
) -> cst.BaseExpression:
    """An arm that divides by 1 where ``condition`` is not ``taken``: it gets no nan then, and no
    gradient of what it is computed of.
    """

    def safe(divisor: cst.CSTNode) -> cst.BaseExpression:
        assert isinstance(divisor, cst.BaseExpression)
        arms = (divisor, cst.Integer("1"))
        return call(f"{use_torch(site)}.where", condition, *(arms if taken else arms[::-1]))

    found: dict[cst.CSTNode, Change] = {
        site.expression_node(each): safe for each in divisors(site, [arm])
    }
    result = changed(site.expression_node(arm), found)
    assert isinstance(result, cst.BaseExpression)
    return result
