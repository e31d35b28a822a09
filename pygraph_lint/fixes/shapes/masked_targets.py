"""Tell the cross entropy which targets to leave out, instead of selecting rows.

    F.cross_entropy(logits[keep], targets[keep])
    ->  F.cross_entropy(logits.reshape(-1, logits.shape[-1]),
                        targets.masked_fill(~keep, -100).reshape(-1))

Always unsafe: the losses are summed in other blocks.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.build import expression, operand
from pygraph_lint.fixes.masked import index_of, is_mask
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site

_LOSSES = frozenset(f"torch.nn.functional.{name}" for name in ("cross_entropy", "nll_loss"))


class MaskedTargets(Rewrite):
    """PG402: ``cross_entropy(logits[keep], targets[keep])``."""

    codes = ("PG402",)
    message = "Leave the other targets out with ignore_index"
    order = 41

    def fits(self, tree: ast.AST) -> bool:
        return isinstance(tree, ast.Call) and len(tree.args) + len(tree.keywords) > 1

    def rewrite(self, site: Site) -> None:
        call = site.tree
        assert isinstance(call, ast.Call)
        if not _is_loss(site, call):
            raise Declined
        logits, targets = call.args[:2]
        if not isinstance(logits, ast.Subscript) or not isinstance(targets, ast.Subscript):
            raise Declined
        keep = index_of(targets)
        both = ast.dump(index_of(logits)) == ast.dump(keep) and is_mask(site, keep)
        site.require("one-mask", both, "logits and targets are not selected by one mask")
        asked = {item.arg for item in call.keywords}
        means = asked <= {"label_smoothing"} and len(call.args) == 2
        site.require("mean", means, "the loss is reduced, weighted or leaves out in another way")
        whole = _is_whole(site, targets.value, keep)
        site.require("classes", whole, "the targets are not certainly numbers of classes")
        site.safe_only_if("rounding", False, "the losses are summed in other blocks")
        x, y = site.expression_node(logits.value), site.expression_node(targets.value)
        mask = operand(site.expression_node(keep))
        rows = expression("{x}.reshape(-1, {x}.shape[-1])", x=operand(x))
        left = expression("{y}.masked_fill(~{keep}, -100).reshape(-1)", y=operand(y), keep=mask)
        site.put(logits, rows)
        site.put(targets, left)


def _is_loss(site: Site, call: ast.Call) -> bool:
    """``F.cross_entropy``, or an object made by ``nn.CrossEntropyLoss()`` just before."""
    if site.ask.callee(call) in _LOSSES:
        return True
    made = site.ask.only_value(call.func) if isinstance(call.func, ast.Name) else None
    plain = isinstance(made, ast.Call) and not made.args and not made.keywords
    return plain and site.ask.callee(made) == "torch.nn.CrossEntropyLoss"  # type: ignore[arg-type]


def _is_whole(site: Site, targets: ast.expr, keep: ast.expr) -> bool:
    """Whether targets are whole numbers: known, or compared with one to make the mask."""
    if site.ask.known(targets).dtype == "int":
        return True
    value = site.ask.only_value(keep) if isinstance(keep, ast.Name) else keep
    return (
        isinstance(value, ast.Compare)
        and ast.dump(value.left) == ast.dump(targets)
        and not isinstance(getattr(value.comparators[0], "value", 0), float)
    )
