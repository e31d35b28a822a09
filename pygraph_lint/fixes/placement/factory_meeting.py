"""Make a tensor where it is used.

    x + torch.arange(n)  ->  x + torch.arange(n, device=x.device)

Safe where every tensor that it meets is on the model's device, and nothing wants it on the host.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.known import Device, Type
from pygraph_lint.analysis.nodes import dotted
from pygraph_lint.fixes.build import expression
from pygraph_lint.fixes.factories import factory
from pygraph_lint.fixes.keywords import with_keyword
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site
from pygraph_lint.fixes.tensors import joins_others


class FactoryMeeting(Rewrite):
    """PG102: ``device=`` for a factory whose tensor meets one on the device."""

    codes = ("PG102",)
    message = "Make the tensor where it is used"
    kinds = (ast.Call,)
    order = 11

    def rewrite(self, site: Site) -> None:
        call, device = site.tree, site.note("meets")
        if device is None or not isinstance(call, ast.Call):
            raise Declined("no tensor on the device is known that it is used with")
        met = device.removesuffix(".device")
        known = site.ask.known_at(met, site.statement)
        if known.must_be(Type.ANYTHING & ~Type.TENSOR):
            raise Declined("no tensor on the device is known that it is used with")
        site.require(
            "met-tensor",
            known.must_be(Type.TENSOR),
            "what it meets may be a number, be None, or not be there yet",
        )
        name = factory(site, call)
        site.message = f"Make the tensor where it is used: {name}(..., device={device})"
        there = site.note("uses") == "device" and joins_others(site, call)
        site.safe_only_if(
            "uses",
            there,
            "code that wants the new tensor on the host would no longer work on a GPU",
        )
        partners = _partners(site, call)
        site.safe_only_if(
            "partners",
            known.device is Device.MODEL and all(_there(site, one) for one in partners),
            "another tensor that it meets may be on the host",
        )
        node = cst.ensure_type(site.node, cst.Call)
        site.put(call, with_keyword(node, "device", expression(device)))


def _partners(site: Site, call: ast.Call) -> list[ast.expr]:
    """The operands that stand beside the tensor, or beside a local name that holds it."""
    found = _beside(site, call)
    parent = site.ask.parent(call)
    if isinstance(parent, ast.Assign):
        for target in parent.targets:
            definition = site.ask.definitions.definition_at(target)
            uses = site.ask.uses(definition) if definition is not None else []
            found += [one for use in uses for one in _beside(site, use)]
    return found


def _beside(site: Site, node: ast.AST) -> list[ast.expr]:
    found: list[ast.expr] = []
    for parent in site.ask.path(node):
        if isinstance(parent, ast.stmt):
            return found
        if isinstance(parent, (ast.BinOp, ast.Compare)):
            sides = [parent.left, *getattr(parent, "comparators", [getattr(parent, "right", None)])]
            found += [side for side in sides if node not in ast.walk(side)]
        elif isinstance(parent, ast.Call):
            given = [*parent.args, *(item.value for item in parent.keywords)]
            found += [
                part
                for each in given
                for part in (each.elts if isinstance(each, (ast.List, ast.Tuple)) else [each])
                if node not in ast.walk(part)
            ]
        elif isinstance(parent, ast.Subscript) and node in ast.walk(parent.slice):
            found.append(parent.value)
    return found


def _there(site: Site, node: ast.expr) -> bool:
    """Whether an operand is no tensor, or one on the model's device."""
    known = site.ask.known(node)
    if known.must_be(Type.NUMBER | Type.TEXT | Type.NONE | Type.DTYPE | Type.DEVICE):
        return not isinstance(node, (ast.Compare, ast.BoolOp))
    return known.must_be(Type.TENSOR) and known.device is Device.MODEL and dotted(node) != ""
