"""Select with ``torch.where`` instead of an expression that branches on a tensor.

    a * 2 if x.sum() > 0 else a  ->  torch.where(x.sum() > 0, a * 2, a)

Always unsafe: both values are computed. Values that may raise when they are not wanted are left
alone.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.branches.tensor_branch import BOTH_ARMS, expect_shape, truth
from pygraph_lint.fixes.build import call
from pygraph_lint.fixes.calm import shape_of
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site
from pygraph_lint.fixes.truths import is_within


class TensorChoice(Rewrite):
    """PG301, PG307: ``a if t else b``."""

    codes = ("PG301", "PG307")
    message = "Select with torch.where instead of branching on the tensor's values"
    kinds = (ast.IfExp,)
    order = 44

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.IfExp)
        if not is_within(site, node.test):
            raise Declined
        tensors = site.ask.is_tensor(node.body) and site.ask.is_tensor(node.orelse)
        site.require("tensors", tensors, "not both values are known to be tensors")
        expect_shape(site, node.body, shape_of(site, node.orelse))
        expect_shape(site, node.orelse, shape_of(site, node.body))
        site.safe_only_if("both", False, BOTH_ARMS)
        values = [site.expression_node(each) for each in (node.body, node.orelse)]
        site.put(node, call(f"{use_torch(site)}.where", truth(site, node.test), *values))
