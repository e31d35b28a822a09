"""Values that ``torch.where`` can select between: tensors of one shape, computed in any case."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.queries.interface import Device, Known, Type
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.names import changes_in_place
from pygraph_lint.fixes.engine.site import Site
from pygraph_lint.fixes.shared.computable import (
    ONE,
    SINGLE,
    alike,
    are_apart,
    may_not_fit,
    only_by_use,
    shape_of,
)

UNRELATED = "nothing shows that the arms are of one shape"
HELD = "values of which nothing is known must be tensors"
NUMBER = "what was a number is a tensor"
FITS = "nothing proves that both arms can always be computed, and are of one shape"


def are_related(site: Site, value: ast.expr, shape: str | None, name: str = "") -> bool:
    """Whether a value has a shape, or one element, or is computed of what has the shape, or of
    what the name holds.
    """
    found = shape_of(site, value)
    parts = {dotted(each) for each in ast.walk(value) if isinstance(each, ast.expr)}
    return bool(alike(found, shape) or {found, shape} & {SINGLE, ONE} or parts & {shape, name})


def expect_fitting(
    site: Site, value: ast.expr, shape: str | None, ranks: tuple[int | None, ...] = ()
) -> None:
    """An arm can be computed in any case, and has a shape, for all that the text shows."""
    found, changed_later = shape_of(site, value), _changed_behind(site, value)
    known = {each for each in ranks if each}
    computable = None not in (found, shape) and not are_apart(found, shape)
    computable = computable and len(known) < 2 and not changed_later
    site.require(
        "computable", computable, "an arm may raise when it is not taken, or have another shape"
    )
    if not alike(found, shape) and {found, shape} & {SINGLE, ONE}:
        site.safe_only_if("shape", False, "the result always has the larger one of two shapes")
    elif not alike(found, shape):
        site.safe_only_if("fits", False, FITS)
    if may_not_fit(site, value):
        site.safe_only_if("fits", False, FITS)


def _changed_behind(site: Site, value: ast.expr) -> bool:
    """Whether what a value is computed of, and its gradient may need, is changed in place behind
    the branch.
    """
    behind = [inner for each in site.behind(site.statement) for inner in ast.walk(each)]
    names = {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
    inside = [each for each in ast.walk(site.statement) if isinstance(each, ast.Name)]
    names -= {each.id for each in inside if isinstance(each.ctx, ast.Store)}
    return any(changes_in_place(each, name) for each in behind for name in names)


def expect_tensors(site: Site, *kinds: Known) -> None:
    """Two values are tensors; one of them may be a number, which becomes a tensor."""
    tensors = any(each.must_be(Type.TENSOR) for each in kinds)
    unknown = [each for each in kinds if not each.must_be(Type.TENSOR | Type.NUMBER)]
    site.require(
        "tensors",
        tensors and all(map(only_by_use, unknown)),
        "not both values are known to be tensors",
    )
    apart = any(each.device is Device.HOST and each.rank != 0 for each in kinds)
    site.require("moved", not apart, "an arm has a tensor of the host, which is not selected there")
    maybe = [it for it in kinds if it.may_be(Type.NUMBER) and it.types != Type.ANYTHING]
    site.safe_only_if("number", not maybe, NUMBER)
    site.safe_only_if("held", not unknown, HELD)
