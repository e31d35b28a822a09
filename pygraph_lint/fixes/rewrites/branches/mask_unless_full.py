"""Keep a full mask instead of replacing it by None: telling that it is full reads it back.

    if cached or torch.all(mask == 1): mask = None  ->  if cached: mask = None
    None if mask.all() else mask                    ->  mask
    if padded.any(): valid = ~padded                ->  valid = ~padded

Always unsafe: code behind has to treat a full mask like no mask, and then does the masking it
skipped before.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import compared, is_constant, method_name, negated
from pygraph_lint.fixes.engine.build import bare, joined
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.masks import is_mask, reduced


class _Choice(NamedTuple):
    """A mask, or None. ``value``: the mask, None where the branch only drops it. ``kept``: the
    condition says when there is a mask, and not when there is none.
    """

    kept: bool
    value: ast.expr | None = None
    statement: ast.stmt | None = None


class MaskUnlessFull(Rewrite):
    """PG201, PG301: ``if mask.all(): mask = None``."""

    codes = ("PG201", "PG301")
    message = "Keep a full mask instead of reading it to see that it is full"
    kinds = (ast.If, ast.IfExp)
    order = 46

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, self.kinds)
        choice = _choice_of(site, node)
        site.require("forgets", choice is not None, "the branch does more than drop a mask")
        choice = choice or _Choice(kept=False)
        asked = _asked(site, node.test, choice.kept)
        if not asked:
            raise Declined()
        if not site.ask.is_pure(node.test):
            raise Declined("the condition has an effect")
        same = choice.value is None or _is_of(site, choice.value, asked)
        site.require("same-mask", same, "what is kept is not the mask that is looked at")
        site.safe_only_if(
            "masking", False, "what follows must treat a full mask like no mask, and does the work"
        )
        rest = _rest(site, node.test, choice.kept)
        if rest is not None:
            old = site.expression_node(node.test)
            site.put(node.test, rest if old.lpar else bare(rest), bare=True)
        elif isinstance(node, ast.IfExp) and choice.value is not None:
            site.put(node, site.expression_node(choice.value))
        elif isinstance(node, ast.If) and choice.statement is not None:
            site.put_branch(node, [site.statement_node(choice.statement)])
        elif isinstance(node, ast.If):
            left = len(site.block(node)) > 1
            site.require("block", left, "the block would be left empty")
            site.put_statements([node], [])


def _choice_of(site: Site, node: ast.If | ast.IfExp) -> _Choice | None:
    """What a branch keeps, and when."""
    if isinstance(node, ast.IfExp):
        if is_constant(node.body, None):
            return _Choice(False, node.orelse)
        return _Choice(True, node.body) if is_constant(node.orelse, None) else None
    arms = [each[0] if len(each) == 1 else None for each in (node.body, node.orelse)]
    first, second = (each if isinstance(each, ast.Assign) else None for each in arms)
    if first is None or (second is None and node.orelse):
        return None
    dropped = is_constant(first.value, None)
    if second is None and dropped:
        return _Choice(False)
    target = first.targets[0]
    if len(first.targets) > 1 or not isinstance(target, ast.Name):
        return None
    if second is None:
        nothing = site.ask.known_at(target.id, node).must_be(Type.NONE)
        return _Choice(True, first.value, first) if nothing else None
    if [ast.unparse(each) for each in second.targets] != [target.id]:
        return None
    if dropped:
        return _Choice(False, second.value, second)
    return _Choice(True, first.value, first) if is_constant(second.value, None) else None


def _full(site: Site, node: ast.expr, kept: bool = False) -> ast.expr | None:
    """The mask of ``mask.all()`` and ``not mask.any()``; ``kept``: of what says the opposite."""
    inner = negated(node)
    return reduced(site, inner or node, "all" if (inner is None) is not kept else "any")


def _asked(site: Site, test: ast.expr, kept: bool) -> list[ast.expr]:
    """The masks of which a condition asks whether they are full."""
    found = _full(site, test, kept)
    if found is not None:
        return [found]
    values = test.values if isinstance(test, ast.BoolOp) else []
    return [each for value in values for each in _asked(site, value, kept)]


def _is_of(site: Site, value: ast.expr, asked: list[ast.expr]) -> bool:
    """Whether a value is a mask that is asked, or what it does not select."""
    same = ast.dump(_base(value)) in [ast.dump(_base(each)) for each in asked]
    return same and is_mask(site, value) and site.ask.is_pure(value)


def _base(mask: ast.expr) -> ast.expr:
    """``mask`` of ``~mask``, ``mask == 1``, ``mask.bool()``."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return _base(mask.operand)
    left, operator, right = compared(mask) or (mask, None, mask)
    if isinstance(operator, (ast.Eq, ast.NotEq)) and getattr(right, "value", None) in (0, 1):
        return _base(left)
    if method_name(mask) in ("bool", "logical_not") and isinstance(mask, ast.Call):
        return _base(mask.func.value) if isinstance(mask.func, ast.Attribute) else mask
    return mask


def _rest(site: Site, test: ast.expr, kept: bool) -> cst.BaseExpression | None:
    """The condition without what asks whether a mask is full; None where nothing is left."""
    if _full(site, test, kept) is not None:
        return None
    if not isinstance(test, ast.BoolOp) or not _asked(site, test, kept):
        return site.expression_node(test)
    parts = [_rest(site, value, kept) for value in test.values]
    left = [part for part in parts if part is not None]
    decides = ast.Or if kept else ast.And
    if not left or (isinstance(test.op, decides) and len(left) < len(parts)):
        return None
    return joined(left, cst.And() if isinstance(test.op, ast.And) else cst.Or())
