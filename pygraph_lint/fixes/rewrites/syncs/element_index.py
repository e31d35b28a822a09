"""Look up by an index that stays on the device.

    x[scores.argmax()]  ->  x[scores.argmax().reshape(1)].squeeze(0)
    x[t - 1]            ->  x[torch.as_tensor(t - 1, device=x.device)[None]].squeeze(0)

An index without dimensions is read by the host, one with a dimension is not. The second form is for
what may be a number as well. Always unsafe: the result is a copy, where it was a view.
"""

from __future__ import annotations

import ast
import re

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.build import expression, operand
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.names import changed_in_place, stored
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site

_DEPTH = 4
_WHOLE = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
# Of annotations of whole numbers, or of tensors that may hold them.
_SAID = {"int", "None", "Optional", "Union", "torch", "Tensor", "IntTensor", "LongTensor"}


class ElementIndex(Rewrite):
    """PG407: ``x[i]`` with an index that is, or may be, on the device."""

    codes = ("PG407",)
    message = "Index with a tensor of one dimension"
    kinds = (ast.Subscript,)
    order = 50

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.Subscript)
        index, table = node.slice, node.value
        if _is_taken_to_host(site, node):
            raise Declined
        known = site.ask.known(index)
        single = known.must_be(Type.TENSOR) and known.rank == 0
        if not isinstance(node.ctx, ast.Load) or not (single or site.note("position")):
            raise Declined
        if not single:  # a capture made by hand cannot copy a number to the device
            site.expect_compiler()
        whole = known.dtype == "int" if single else _is_whole(site, index)
        site.require("whole", whole, "the index is not certainly a whole number")
        site.require("tensor", _is_table(site, table), "the table is not known to be a tensor")
        proven = site.ask.is_tensor(table)
        site.safe_only_if("table", proven, f"`{ast.unparse(table)}` must be a tensor")
        pure = single or site.ask.is_pure(table)
        site.require("pure", pure, "the table is made by what has an effect")
        site.require("read", not _is_written(site, node), "the element is written to in place")
        site.safe_only_if(
            "copy",
            False,
            "the element is a copy, where it was a view, and an index that is out of bounds is no"
            " error that can be caught on a GPU",
        )
        x, i = map(site.expression_node, (table, index))
        made = (
            "{i}.reshape(1)"
            if single
            else f"{use_torch(site)}.as_tensor({{i}}, device={{x}}.device)[None]"
        )
        parts = {"x": operand(x), "i": operand(i) if single else i}
        site.put(node, expression(f"{{x}}[{made}].squeeze(0)", **parts))


def _is_whole(site: Site, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether an index is a whole number or a tensor of such, as far as is said: no mask, no
    slice and no list.
    """
    known = site.ask.known(node)
    if known.dtype == "int" and known.must_be(Type.TENSOR | Type.NUMBER):
        return True
    if not depth:
        return False
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_whole(site, node.operand, depth - 1)
    if isinstance(node, ast.BinOp) and isinstance(node.op, _WHOLE):
        return all(_is_whole(site, each, depth - 1) for each in (node.left, node.right))
    if not isinstance(node, ast.Name):
        return False
    definition = site.ask.only_definition(node)
    if definition is not None and isinstance(definition.node, ast.arg):
        said = definition.node.annotation
        words = set(re.findall(r"\w+", ast.unparse(said))) if said is not None else set()
        return "int" in words and words <= _SAID
    values = site.ask.values(node)
    return bool(values) and all(_is_whole(site, each, depth - 1) for each in values or ())


def _is_table(site: Site, node: ast.expr) -> bool:
    """Whether an expression is a tensor, or an attribute that is set to one somewhere."""
    owner = site.ask.owner(node) if isinstance(node, ast.Attribute) else None
    values = stored(owner, ast.unparse(node)) if owner is not None else []
    return any(map(site.ask.is_tensor, (node, *values)))


def _is_taken_to_host(site: Site, node: ast.expr) -> bool:
    """Whether the element itself is read at once: the graph ends there in any case."""
    parent = site.ask.parent(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "tolist")
    return isinstance(parent, ast.Call) and dotted(parent.func) in ("int", "float", "bool")


def _is_written(site: Site, node: ast.expr) -> bool:
    """Whether what is read is written to: at once, or under the name that it is given."""
    parent = site.ask.parent(node)
    if isinstance(parent, (ast.Subscript, ast.Attribute)) and parent.value is node:
        method = isinstance(parent, ast.Attribute) and parent.attr.endswith("_")
        return method or not isinstance(parent.ctx, ast.Load) or _is_written(site, parent)
    named = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if named is None or site.function is None:
        return False
    name = dotted(named)
    return name is None or changed_in_place(site.function, name)
