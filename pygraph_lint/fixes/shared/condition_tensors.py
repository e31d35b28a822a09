"""The condition of a branch as a tensor."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from functools import partial, reduce

import libcst as cst

from pygraph_lint.analysis.queries.interface import Known, Type
from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.engine.build import call, expression, operand
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Declined, Site, by_use
from pygraph_lint.fixes.shared.computable import SINGLE, shape_of
from pygraph_lint.fixes.shared.conditions import PLAIN

_NUMBERS = ("builtins.bool", "builtins.float", "builtins.int")
_QUESTIONS = ("any", "all", "isnan", "isinf", "isfinite")
_SAME_MEMORY = (
    "bool",
    "reshape",
    "view",
    "squeeze",
    "unsqueeze",
    "flatten",
    "detach",
    "to",
    "type",
)


def truth(site: Site, node: ast.expr) -> cst.BaseExpression:
    """A boolean tensor of one element with the truth of ``node``."""
    torch = use_torch(site)
    if isinstance(node, ast.BoolOp):
        word = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        return reduce(partial(call, f"{torch}.{word}"), [truth(site, each) for each in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return call(f"{torch}.logical_not", truth(site, node.operand))
    inner = _read(site, node)
    if inner is not None and not _truncates(site, node, inner):
        return truth(site, inner)
    site.require("pure", _is_pure(site, node), "the condition calls what is not known")
    known = site.ask.known(node)
    tensor, single, value = known.must_be(Type.TENSOR), known.rank == 0, site.expression_node(node)
    if isinstance(node, ast.Compare):
        tensor, value = _compared(site, node, tensor)
    elif known.dtype != "bool" and method_name(node) not in _QUESTIONS:
        value = expression("{value} != 0", value=operand(value))
    site.require("tensor", tensor, "the condition is not certainly a tensor")
    # Of one element, or asking for its truth raises: without its dimensions the result has none.
    single = single or shape_of(site, node) == SINGLE
    return value if single else expression("{value}.reshape(())", value=operand(value))


def _compared(site: Site, node: ast.Compare, tensor: bool) -> tuple[bool, cst.BaseExpression]:
    """Whether a comparison is a tensor for certain, and its node, with tensors in place of the
    numbers that are read from them. ``tensor``: its value is one.
    """
    if len(node.ops) > 1:
        raise Declined("the comparison is chained")
    sides = [node.left, node.comparators[0]]
    value = cst.ensure_type(site.expression_node(node), cst.Comparison)
    reads = [_read(site, side) for side in sides]
    if not any(reads):
        else_possible = any(map(_may_be_else, map(site.ask.known, sides)))
        return tensor and (any(map(site.ask.is_tensor, sides)) or not else_possible), value
    pairs = list(zip(sides, reads, strict=True))
    cut = any(read is not None and _truncates(site, side, read) for side, read in pairs)
    raised = ", and nan and inf no longer raise" if cut else ""
    reason = f"numbers are compared in the tensor's dtype{raised}"
    site.safe_only_if("compared", False, reason)
    left, right = (_number(site, side, read) for side, read in pairs)
    other = value.comparisons[0].with_changes(comparator=right)
    return isinstance(node.ops[0], PLAIN), value.with_changes(left=left, comparisons=[other])


def _may_be_else(known: Known) -> bool:
    """Whether a value was a tensor on one path, and may be anything on another one."""
    return known.types == Type.ANYTHING and bool(known.evidence) and not by_use(known)


def _is_pure(site: Site, node: ast.expr) -> bool:
    """Whether a condition may be evaluated in any case; a draw that is all of it is made once, as
    before.
    """
    effects = site.ask.effects(node)
    alone = node is getattr(site.tree, "test", None)
    return effects.none or (alone and replace(effects, draws=False).none)


def _read(site: Site, node: ast.expr) -> ast.expr | None:
    """The tensor of ``t.item()``, ``bool(t)``, ``float(t)``, ``int(t)``, ``int(t.item())``."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    given = node.args
    if method_name(node) == "item" and isinstance(node.func, ast.Attribute):
        given = [] if given else [node.func.value]
    elif site.ask.callee(node) not in _NUMBERS:
        return None
    elif len(given) == 1 and method_name(given[0]) == "item":
        return _read(site, given[0])
    return given[0] if len(given) == 1 and site.ask.is_tensor(given[0]) else None


def _number(site: Site, side: ast.expr, read: ast.expr | None) -> cst.BaseExpression:
    """A side of a comparison without its read: ``t.long()`` of ``int(t)``, else ``t``."""
    value = operand(site.expression_node(read or side))
    truncated = read is not None and _truncates(site, side, read)
    return expression("{value}.long()", value=value) if truncated else value


def _truncates(site: Site, node: ast.expr, read: ast.expr) -> bool:
    """Whether ``int(t)`` reads another number than ``t`` holds."""
    whole = isinstance(node, ast.Call) and site.ask.callee(node) == "builtins.int"
    return whole and site.ask.known(read).dtype not in ("int", "bool")


def held_by(site: Site, test: ast.expr) -> str | None:
    """The name whose tensor a condition is, or is a view of; None: it is a tensor of its own."""
    inner = _read(site, test)
    if inner is None and method_name(test) in _SAME_MEMORY and isinstance(test, ast.Call):
        inner = test.func.value if isinstance(test.func, ast.Attribute) else None
    if inner is not None:
        return held_by(site, inner)
    plain = isinstance(test, (ast.Name, ast.Attribute, ast.Subscript))
    return root_of(ast.unparse(test)) if plain else None


def root_of(place: str) -> str:
    """``x`` of ``x[0].y``."""
    return re.split(r"[.\[]", place, maxsplit=1)[0]
