"""Work a number out in Python instead of numpy, which torch.compile does not trace into a number.

    int(np.prod(x.shape))                              ->  int(x.numel())
    int(np.prod(x.shape[1:]))                          ->  int(x.shape[1:].numel())
    int(np.prod([n, 2]))                               ->  int(math.prod([n, 2]))
    np.ceil(np.log1p(x.shape[0])).astype(int).item()   ->  math.ceil(math.log1p(x.shape[0]))

Safe for a shape of a tensor, or a part of it, where the result goes through ``int`` at once: of no
sizes numpy gives 1.0, and ``numel`` wraps as numpy does. Other products do not wrap any more, and
are numbers of another type.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.nodes import method_name
from pygraph_lint.fixes.build import call as called
from pygraph_lint.fixes.build import expression, operand
from pygraph_lint.fixes.factories import is_integer
from pygraph_lint.fixes.imports import use_module, use_torch
from pygraph_lint.fixes.names import changed_in_place, loads
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site

_BUILTIN = {"sum": "sum", "max": "max", "amax": "max", "min": "min", "amin": "min"}
# Of a size, these are the same to the last bit that rounding up or down can see.
_FUNCTIONS = {"numpy.log1p": "log1p", "numpy.sqrt": "sqrt"}
_KEEPING = ("torch.", "numpy.", *(f"builtins.{each}" for each in ("len", "list", "tuple", "range")))
_WHOLE = ("int", "np.int64", "numpy.int64", "'int'", "'int64'")


class HostNumber(Rewrite):
    """PG520: a sum, a product, an extreme or a rounding of sizes."""

    codes = ("PG520",)
    message = "Work the number out in Python"
    order = 63

    def rewrite(self, site: Site) -> None:
        call = site.path[-1]
        if not isinstance(call, ast.Call) or site.function is None:
            raise Declined()
        if method_name(call) == "item":
            _rounded(site, call)
        else:
            _reduced(site, call)


def _reduced(site: Site, call: ast.Call) -> None:
    """A sum, a product or an extreme of several numbers."""
    name = (site.ask.callee(call) or "").rpartition(".")[2]
    plain = len(call.args) == 1 and not call.keywords and (name in _BUILTIN or name == "prod")
    site.require("plain", plain, "numpy is asked for more than the one number")
    numbers = call.args[0]
    shape = _is_whole_shape(site, numbers)
    site.require(
        "numbers", shape or _is_list(site, numbers), "it is not proven to be a list of sizes"
    )
    parent = site.ask.parent(call)
    item = _item_behind(site, call)
    whole = item or call
    converted = item is not None or _is_converted(site, parent)
    asked = not converted and _asks_numpy(site, parent)
    site.require("python", not asked, "what numpy gives is asked for more than a number has")
    site.safe_only_if("converted", converted, "the result is Python's number, not numpy's")
    whole_number = item is None or name not in ("sum", "prod")
    site.safe_only_if("some", whole_number, "of no sizes at all numpy makes a float")
    sized = name == "prod" and not shape and converted and _is_sizes(site, numbers)
    fits = shape or sized or name not in ("sum", "prod")
    site.safe_only_if("fits", fits, "beyond 64 bits numpy's result wraps")
    if name in ("max", "amax", "min", "amin") or name == "sum":
        builtin = _BUILTIN[name]
        if not site.ask.is_builtin(builtin, call):
            raise Declined(f"the name {builtin} means something else here")
        function = cst.Name(builtin)
    elif sized or (shape and site.proven_tensor(_of_shape(numbers))):
        site.put(whole, _number_of_elements(site, numbers, shape))
        return
    else:
        function = expression(f"{use_module(site, 'math')}.prod")  # type: ignore[assignment]
    node = cst.ensure_type(site.expression_node(call), cst.Call)
    site.put(whole, node.with_changes(func=function))


def _number_of_elements(site: Site, numbers: ast.expr, shape: bool) -> cst.BaseExpression:
    """``x.numel()`` of a tensor's `shape`; ``torch.Size(sizes).numel()`` of other sizes."""
    if shape:
        tensor = operand(site.expression_node(_of_shape(numbers)))
        return expression("{tensor}.numel()", tensor=tensor)
    sizes = site.expression_node(numbers)
    cut = isinstance(numbers, ast.Subscript) and _is_whole_shape(site, numbers.value)
    made = sizes if cut else called(f"{use_torch(site)}.Size", sizes)
    return expression("{sizes}.numel()", sizes=made)


def _asks_numpy(site: Site, parent: ast.AST | None) -> bool:
    """Whether the number goes anywhere but into arithmetic, a comparison or a call."""
    while isinstance(parent, (ast.BinOp, ast.UnaryOp)):
        parent = site.ask.parent(parent)
    return not isinstance(parent, (ast.Compare, ast.Call))


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


def _is_list(site: Site, node: ast.expr) -> bool:
    """A list or tuple of whole numbers, or a part of a shape."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return _is_sizes(site, node.value)
    elements = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
    whole = bool(elements) and all(is_integer(site, each) for each in elements)
    return whole or (isinstance(node, (ast.Name, ast.Call)) and _is_sizes(site, node))


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


def _item_behind(site: Site, call: ast.Call) -> ast.Call | None:
    """The call of ``.item()`` behind one, which Python's own numbers do not have."""
    attribute = site.ask.parent(call)
    taken = site.ask.parent(attribute) if isinstance(attribute, ast.Attribute) else None
    if not isinstance(attribute, ast.Attribute) or attribute.attr != "item":
        return None
    return taken if isinstance(taken, ast.Call) and not taken.args else None


def _is_converted(site: Site, parent: ast.AST | None) -> bool:
    """Whether the result goes through ``int(...)``, which is the same for a float."""
    return isinstance(parent, ast.Call) and site.ask.callee(parent) == "builtins.int"


def _rounded(site: Site, call: ast.Call) -> None:
    """A number rounded by numpy and taken out of it."""
    cast = call.func.value if isinstance(call.func, ast.Attribute) else None
    rounding = cast.func.value if _converts(cast) else None  # type: ignore[union-attr]
    if not isinstance(rounding, ast.Call):
        raise Declined()
    rounds = site.ask.callee(rounding) or ""
    known = rounds in ("numpy.ceil", "numpy.floor")
    site.require("rounding", known, "the number is not rounded up or down")
    plain = len(rounding.args) == 1 and not rounding.keywords and not call.args
    site.require("alone", plain, "numpy is asked for more than the one number")
    value = _in_python(site, rounding.args[0])
    site.require("size", value is not None, "what is rounded is not worked out of sizes alone")
    value = value or site.expression_node(rounding.args[0])
    name = rounds.rpartition(".")[2]
    site.put(call, called(f"{use_module(site, 'math')}.{name}", value))


def _converts(node: ast.AST | None) -> bool:
    """``.astype(int)``, in any of its spellings."""
    return (
        isinstance(node, ast.Call)
        and method_name(node) == "astype"
        and len(node.args) == 1
        and not node.keywords
        and ast.unparse(node.args[0]) in _WHOLE
    )


def _in_python(site: Site, node: ast.expr) -> cst.BaseExpression | None:
    """An expression of sizes with Python's own functions; None if it is more than that."""
    name = _FUNCTIONS.get(site.ask.callee(node) or "")
    if name is not None and isinstance(node, ast.Call):
        single = len(node.args) == 1 and not node.keywords
        if single and is_integer(site, node.args[0], count=True):
            function = f"{use_module(site, 'math')}.{name}"
            return called(function, site.expression_node(node.args[0]))
        return None
    halved = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    if isinstance(node, ast.BinOp) and halved and is_integer(site, node.left, count=True):
        return site.expression_node(node) if _is_positive(node.right) else None
    return None


def _is_positive(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 0
