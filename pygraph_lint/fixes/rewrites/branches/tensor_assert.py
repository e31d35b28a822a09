"""Assert on a tensor, which torch.compile takes along, instead of reading it back.

    assert a.max().item() <= n and b.min() >= 0  ->  assert (a.max() <= n) & (b.min() >= 0)
    assert torch.all(a > 0) and b.any()          ->  assert torch.all(a > 0) & b.any()

Always unsafe: in compiled code the failure is a RuntimeError of the device. Each operand has to be
a tensor for certain: an assert on a bool of Python fails in every compiled call.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import compared, method_name, receiver
from pygraph_lint.fixes.engine.build import changed, joined, operand
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.rewrites.effects.guard_assert import GuardAssert
from pygraph_lint.fixes.shared.conditions import PLAIN, operands

_LOOKING_UP = ("gather", "index_select", "take", "take_along_dim", "embedding")


class TensorAssert(Rewrite):
    """PG304, and what is read inside an assert."""

    codes = ("PG304", "PG201", "PG202", "PG301", "PG307")
    message = "Assert on a tensor, which compiled code takes along"
    kinds = (ast.Assert,)
    order = 35

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.Assert)
        parts = operands(node.test)
        constant = node.msg is None or isinstance(node.msg, ast.Constant)
        if site.finding.code == "PG301" and (len(parts) < 2 or not constant):
            raise Declined
        others = {*GuardAssert.codes} - {*self.codes}
        if any(each.code in others and node in site.path_of(each) for each in site.findings):
            raise Declined("something else in the assert ends the graph")
        truth = all(_is_truth(site, part) for part in parts)
        site.require("truth", truth, "an operand is not certainly a tensor")
        guarded = any(_looks_up(part) for part in parts[1:])
        site.require("guarded", not guarded, "an operand looks up what others protect")
        reads = [each for each in ast.walk(node.test) if _item(each) is not None]
        terms = {term for part in parts for term in _terms(part)}
        site.require("compared", {*reads} <= terms, "what is read is not only compared")
        site.require("done", bool(reads) or len(parts) > 1, "torch.compile needs none here")
        site.require("message", constant, "the message is computed: the graph breaks all the same")
        site.safe_only_if("compiled", False, "compiled code raises a RuntimeError of the device")
        conditions = [_on_device(site, part) for part in parts]
        several = joined(map(operand, conditions), cst.BitAnd())
        site.put(node.test, several if len(conditions) > 1 else conditions[0])


def _looks_up(part: ast.expr) -> bool:
    """Whether an operand looks up by what is not written out."""
    indices = [each.slice for each in ast.walk(part) if isinstance(each, ast.Subscript)]
    named = any(isinstance(each, ast.Name) for index in indices for each in ast.walk(index))
    return named or any(method_name(each) in _LOOKING_UP for each in ast.walk(part))


def _terms(node: ast.AST) -> list[ast.AST]:
    """A node, what it compares if it is a comparison, and what arithmetic is done with."""
    works = isinstance(node, (ast.Compare, ast.BinOp, ast.UnaryOp))
    inner = [*ast.iter_child_nodes(node)] if works else []
    return [node, *(term for each in inner for term in _terms(each))]


def _is_truth(site: Site, node: ast.expr) -> bool:
    """Whether an operand is a tensor that says true or false, perhaps one that is read back: a
    comparison with a tensor on a side, or whether all or any are true.
    """
    asked = _item(node) or node
    if method_name(asked):
        return method_name(asked) in ("all", "any") and site.ask.is_tensor(asked)
    left, operator, right = compared(node) or (node, None, node)
    tensors = [_item(side) or side for side in (left, right)]
    return isinstance(operator, PLAIN) and any(map(site.ask.is_tensor, tensors))


def _item(node: ast.AST) -> ast.expr | None:
    """``t`` of ``t.item()``."""
    return receiver(node, ("item",)) if not getattr(node, "args", ()) else None


def _on_device(site: Site, node: ast.expr) -> cst.BaseExpression:
    """The operand with each ``.item()`` taken off."""
    calls = [site.file.node(each) for each in ast.walk(node) if _item(each) is not None]
    found = changed(site.expression_node(node), dict.fromkeys(calls, _receiver))
    assert isinstance(found, cst.BaseExpression)
    return found


def _receiver(call: cst.CSTNode) -> cst.CSTNode:
    return cst.ensure_type(cst.ensure_type(call, cst.Call).func, cst.Attribute).value
