"""Work a product out in Python instead of numpy, which torch.compile does not trace into a number.

    int(np.prod(x.shape))      ->  int(x.numel())
    int(np.prod(x.shape[1:]))  ->  int(x.shape[1:].numel())
    int(np.prod(list(sizes)))  ->  int(torch.Size(list(sizes)).numel())

Safe: of no sizes numpy gives 1.0, which ``int`` makes to 1, and ``numel`` wraps as numpy does.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.fixes.build import call as called
from pygraph_lint.fixes.build import expression, operand
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import changed_in_place, loads
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site

_KEEPING = ("torch.", "numpy.", *(f"builtins.{each}" for each in ("len", "list", "tuple", "range")))


class HostNumber(Rewrite):
    """PG520: a product of sizes that goes through ``int`` at once."""

    codes = ("PG520",)
    message = "Work the number out in Python"
    order = 63

    def rewrite(self, site: Site) -> None:
        call = site.path[-1]
        if not isinstance(call, ast.Call) or site.function is None:
            raise Declined()
        product = site.ask.callee(call) == "numpy.prod"
        plain = product and len(call.args) == 1 and not call.keywords
        site.require("plain", plain, "numpy is asked for more than the one number")
        numbers, parent = call.args[0], site.ask.parent(call)
        shape = _is_whole_shape(site, numbers)
        sizes = site.proven_tensor(_of_shape(numbers)) if shape else _is_sizes(site, numbers)
        site.require("numbers", sizes, "it is not proven to be a list of sizes")
        converted = isinstance(parent, ast.Call) and site.ask.callee(parent) == "builtins.int"
        site.require("converted", converted, "what numpy gives is asked for more than a number has")
        site.put(call, _number_of_elements(site, numbers, shape))


def _number_of_elements(site: Site, numbers: ast.expr, shape: bool) -> cst.BaseExpression:
    """``x.numel()`` of a tensor's `shape`; ``torch.Size(sizes).numel()`` of other sizes."""
    if shape:
        tensor = operand(site.expression_node(_of_shape(numbers)))
        return expression("{tensor}.numel()", tensor=tensor)
    sizes = site.expression_node(numbers)
    cut = isinstance(numbers, ast.Subscript) and _is_whole_shape(site, numbers.value)
    made = sizes if cut else called(f"{use_torch(site)}.Size", sizes)
    return expression("{sizes}.numel()", sizes=made)


def _is_whole_shape(site: Site, node: ast.expr) -> bool:
    """``x.shape`` or ``x.size()`` of what is a tensor for certain."""
    if isinstance(node, ast.Call):
        sized = isinstance(node.func, ast.Attribute) and node.func.attr == "size"
        return sized and not node.args and site.proven_tensor(node.func.value)  # type: ignore[attr-defined]
    return (
        isinstance(node, ast.Attribute) and node.attr == "shape" and site.ask.is_tensor(node.value)
    )


def _of_shape(node: ast.expr) -> ast.expr:
    """``x`` of ``x.shape`` or ``x.size()``."""
    attribute = node.func if isinstance(node, ast.Call) else node
    assert isinstance(attribute, ast.Attribute)
    return attribute.value


def _is_sizes(site: Site, node: ast.expr) -> bool:
    """A shape, a list or tuple made of one, or a name that only ever holds such."""
    if isinstance(node, ast.Name):
        values = site.ask.values(node)
        changed = site.function is None or _changed(site, node.id)
        return bool(values) and not changed and all(_is_sizes(site, each) for each in values or ())
    if isinstance(node, ast.Call) and site.ask.callee(node) in ("builtins.list", "builtins.tuple"):
        return len(node.args) == 1 and _is_sizes(site, node.args[0])
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _is_sizes(site, node.value)
    return _is_whole_shape(site, node)


def _changed(site: Site, name: str) -> bool:
    """Whether a list may be changed in the function: in place, by a method, or by what it is given
    to, other than a function of torch or Python's own.
    """
    assert site.function is not None
    for read in loads(site.function, name):
        parent = site.ask.parent(read)
        if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load):
            continue
        if isinstance(parent, ast.Call) and (site.ask.callee(parent) or "").startswith(_KEEPING):
            continue
        if not isinstance(parent, (ast.BinOp, ast.Compare, ast.Return, ast.Tuple, ast.Starred)):
            return True
    return changed_in_place(site.function, name)
