"""Assert on tensors' values only outside compiled code.

    assert (t[1:] > t[:-1]).all(), f"{name} must increase"
    ->  assert torch.compiler.is_compiling() or (t[1:] > t[:-1]).all(), f"{name} must increase"

Always unsafe: compiled code no longer checks. For asserts that cannot become a check on the device:
their message is computed, or what they ask is not certainly a tensor.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.engine.build import operand
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.guards import changes_something, not_compiling


class GuardAssert(Rewrite):
    """Any rule of a value that is read inside an ``assert``."""

    codes = (
        *("PG201", "PG202", "PG203", "PG204", "PG206", "PG207", "PG209"),
        *("PG301", "PG307", "PG309", "PG401", "PG402", "PG403"),
    )
    message = "Assert only when not compiling"
    kinds = (ast.Assert,)
    order = 85
    in_strings = True

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.Assert)
        if site.function is None:
            raise Declined("the code runs when the module is imported")
        site.expect_compiler()
        site.require("only-asks", not changes_something(node.test), "the condition has an effect")
        site.safe_only_if("checked", False, "compiled code no longer makes this check")
        asked = cst.ensure_type(not_compiling(site), cst.UnaryOperation).expression
        old = site.expression_node(node.test)
        loose = isinstance(old, (cst.IfExp, cst.Lambda, cst.NamedExpr))
        right = operand(old) if loose else old
        site.put(
            node.test, cst.BooleanOperation(left=asked, operator=cst.Or(), right=right), bare=True
        )
