"""Have a loss ignore the rows that a mask leaves out, without selecting the others.

    F.cross_entropy(logits[keep], labels[keep])
    ->  F.cross_entropy(logits.flatten(0, -2), torch.where(keep, labels.long(), -100).flatten())

Always unsafe: the loss of every row is computed.
"""

from __future__ import annotations

import ast
from contextlib import suppress

from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.engine.build import bare, expression, operand
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.masks import expect_selectable, index_of, is_mask

_FUNCTIONS = frozenset(f"torch.nn.functional.{name}" for name in ("cross_entropy", "nll_loss"))
_MODULES = frozenset(f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss"))
_KEYWORDS = frozenset(("weight", "ignore_index", "reduction", "label_smoothing"))
_IGNORED = -100  # what these losses ignore where they are told nothing else


class IgnoredRows(Rewrite):
    """PG402: ``cross_entropy(x[mask], t[mask])``, ``self.criterion(x[mask], t[mask].long())``."""

    codes = ("PG402",)
    message = "Let the loss ignore the rows that the mask leaves out"
    kinds = (ast.Subscript,)
    order = 41

    def rewrite(self, site: Site) -> None:
        read = site.tree
        assert isinstance(read, ast.Subscript)
        loss, scores, labels = _loss(site, read)
        mask = index_of(read)
        if any(ast.dump(each.slice) != ast.dump(mask) for each in (scores, labels)):
            raise Declined
        said = _said(site, loss)
        ignored = _ignored(said.get("ignore_index"))
        number = said.get("reduction", "mean") in ("mean", "sum") or _is_summed(site, loss)
        plain = number and ignored is not None and said.keys() <= _KEYWORDS
        site.require("plain", plain, "the loss is asked for more than a mean or a sum")
        site.require("mask", is_mask(site, mask), "the index is not certainly a mask")
        expect_selectable(site, loss, mask, labels.value)
        pure = all(map(site.ask.is_pure, (mask, scores.value, labels.value)))
        site.require("pure", pure, "the mask or a tensor is computed by what may have an effect")
        whole = labels not in loss.args or site.ask.known(labels).dtype in ("", "int")
        site.require("classes", whole, "the labels are no numbers of classes")
        site.safe_only_if(
            "every-row",
            False,
            "the loss of every row is computed: rounding and zero gradients may differ (also nan); "
            "each row that the mask selects must have one label, the number of a class; a loss "
            "that an object keeps must be the one that its class makes",
        )
        chosen = expression(
            f"{use_torch(site)}.where({{mask}}, {{labels}}.long(), {ignored})",
            mask=bare(site.expression_node(mask)),
            labels=operand(site.expression_node(labels.value)),
        )
        rows = operand(site.expression_node(scores.value))
        ranks = ((mask, 1), (labels.value, 1), (scores.value, 2))
        if any(site.ask.known(each).rank == rank for each, rank in ranks):
            site.put(scores, bare(rows))
            site.put(loss.args[1], chosen)
        else:
            site.put(scores, expression("{x}.flatten(0, -2)", x=rows))
            site.put(loss.args[1], expression("{x}.flatten()", x=chosen))


def _loss(site: Site, read: ast.Subscript) -> tuple[ast.Call, ast.Subscript, ast.Subscript]:
    """The call that gets two reads, this one among them, and both."""
    for node in reversed(site.path[: site.path.index(read)]):
        if isinstance(node, ast.Call) and len(node.args) == 2:
            scores, labels = map(_read, node.args)
            if scores is not None and labels is not None and read in (scores, labels):
                return node, scores, labels
    raise Declined


def _read(node: ast.expr) -> ast.Subscript | None:
    """``x[mask]`` of an argument ``x[mask]``, ``x[mask].long()``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value if node.func.attr == "long" and not node.args else node
    return node if isinstance(node, ast.Subscript) else None


def _is_summed(site: Site, loss: ast.Call) -> bool:
    """Whether only the sum of a loss's numbers is used."""
    around = site.ask.parent(loss)
    whole = site.ask.parent(around) if around is not None else None
    if not isinstance(whole, ast.Call) or whole.func is not around:
        return False
    return method_name(whole) == "sum" and not whole.args and not whole.keywords


def _said(site: Site, loss: ast.Call) -> dict[str | None, object]:
    """What a loss is told by keywords, where it is called and where it is made: constants, and the
    nodes of everything else.
    """
    calls = [loss]
    if site.ask.callee(loss) not in _FUNCTIONS:
        maker = _maker(site, loss.func)
        if site.ask.callee(maker) not in _MODULES or not isinstance(maker, ast.Call):
            raise Declined
        site.require("module", len(maker.args) < 2, "the loss is told something by position")
        calls.append(maker)
    found: dict[str | None, object] = {}
    for item in (each for call in calls for each in call.keywords):
        value: object = item.value
        with suppress(ValueError):
            value = ast.literal_eval(item.value)
        found[item.arg] = value
    return found


def _maker(site: Site, func: ast.expr) -> ast.expr:
    """What made a loss that is an object: of a local name, or of an attribute of ``self`` that the
    class sets once.
    """
    found: list[ast.expr | None] = [func]
    if isinstance(func, ast.Name):
        found = [site.ask.only_value(func)]
    elif isinstance(func, ast.Attribute):
        found = _kept(site, func)
    if len(found) != 1 or found[0] is None:
        raise Declined
    return found[0]


def _kept(site: Site, place: ast.Attribute) -> list[ast.expr | None]:
    """The values that a file gives an attribute of ``self``; None for another object's."""
    owner, name = site.ask.owner(place), place.attr
    if owner is None or any(
        getattr(each, "id", "") in ("setattr", name) for each in site.ask.nodes
    ):
        return []
    stores = [each for each in site.ask.of_kind(ast.Attribute) if isinstance(each.ctx, ast.Store)]
    return [
        getattr(site.ask.statement(each), "value", None)
        if ast.unparse(each) == ast.unparse(place) and site.ask.owner(each) is owner
        else None
        for each in stores
        if each.attr == name
    ]


def _ignored(said: object) -> int | None:
    """The label that a loss ignores, by what it is told; None where that is no plain number."""
    if said is None:
        return _IGNORED
    return said if isinstance(said, int) else None
