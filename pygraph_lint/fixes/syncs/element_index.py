"""Look up by an index that stays on the device.

    x[scores.argmax()]  ->  x[scores.argmax().reshape(1)].squeeze(0)

An index without dimensions is read by the host, one with a dimension is not. Always unsafe: the
result is a copy, where it was a view.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.known import Type
from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.fixes.build import expression, operand
from pygraph_lint.fixes.names import changed_in_place
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site


class ElementIndex(Rewrite):
    """PG407: ``x[i]`` with an index that was computed on the device."""

    codes = ("PG407",)
    message = "Index with a tensor of one dimension"
    kinds = (ast.Subscript,)
    order = 50

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.Subscript)
        index = node.slice
        known = site.ask.known(index)
        if not known.must_be(Type.TENSOR) or not isinstance(node.ctx, ast.Load):
            raise Declined()
        whole = known.rank == 0 and known.dtype == "int"
        site.require("whole", whole, "the index is not certainly a whole number")
        tensor = site.ask.is_tensor(node.value)
        site.require("tensor", tensor, "what is indexed is not certainly a tensor")
        site.require("read", not is_written(site, node), "the element is written to in place")
        site.safe_only_if("copy", False, "the element is a copy, where it was a view")
        parts = {
            "x": operand(site.expression_node(node.value)),
            "i": operand(site.expression_node(index)),
        }
        site.put(node, expression("{x}[{i}.reshape(1)].squeeze(0)", **parts))


def is_written(site: Site, node: ast.expr) -> bool:
    """Whether what is read is written to: at once, or under the name that it is given."""
    parent = site.ask.parent(node)
    if isinstance(parent, (ast.Subscript, ast.Attribute)) and parent.value is node:
        method = isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
        return method or not isinstance(parent.ctx, ast.Load) or is_written(site, parent)
    named = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if named is None or site.function is None:
        return False
    name = dotted(named)
    return name is None or changed_in_place(site.function, name)
