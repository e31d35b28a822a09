"""Fill a number on the device it is asked for instead of copying it there.

    torch.tensor(0.0, device=x.device)    ->  torch.zeros((), device=x.device)
    torch.tensor(2, dtype=d, device=dev)  ->  torch.full((), 2, dtype=d, device=dev)

Safe for numbers that are written out, whose dtype ``full`` infers as ``tensor`` does, where the new
tensor only meets tensors that depend on an input. A trace knows the number in ``torch.tensor(3)``,
and no longer that in ``torch.full``: whoever reads it, ``range(int(t))``, would break an export. A
capture can record the fill; it cannot record the copy.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.queries.interface import Device
from pygraph_lint.analysis.syntax.nodes import dotted, method_name
from pygraph_lint.fixes.engine.build import expression
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.factories import is_exact, literal_number

_WORDS = frozenset(("inf", "+inf", "-inf", "nan", "infinity", "-infinity"))
_READERS = frozenset(f"builtins.{name}" for name in ("int", "float", "bool", "complex", "range"))
#: float32, the default dtype, holds every smaller number, and int64 every smaller whole one.
_LARGEST, _LARGEST_WHOLE = 3.4e38, 2**63 - 1


class ScalarFill(Rewrite):
    """PG104, PG704: ``torch.full`` instead of ``torch.tensor`` for a number with a device."""

    codes = ("PG104", "PG704")
    message = "Fill a 0-d tensor on the device instead of copying a number there"
    kinds = (ast.Call,)
    order = 20
    early = True

    def rewrite(self, site: Site) -> None:
        call = site.tree
        if not isinstance(call, ast.Call) or site.ask.callee(call) != "torch.tensor":
            raise Declined()
        given = {item.arg: item.value for item in call.keywords}
        site.require(
            "plain",
            len(call.args) == 1 and given.keys() <= {"dtype", "device"},
            "more than a value, a dtype and a device is asked for",
        )
        site.require("device", "device" in given, "no device is asked for")
        value, dtype = call.args[0], given.get("dtype")
        _expect_number(site, value, dtype)
        site.require(
            "stays-tensor",
            not _is_read(site, call),
            "the host reads the number: use the number itself",
        )
        node = cst.ensure_type(site.node, cst.Call)
        commented = "#" in site.source.segment(call.func)
        site.require("no-comments", not commented, "a comment in the function's name would be lost")
        site.safe_only_if(
            "meets-input",
            meets_input(site, call),
            "an export no longer knows the number, if something reads it",
        )
        # ``zeros`` infers a dtype of its own for whole numbers.
        named = dtype is not None and (site.ask.qualified(dtype) or "").startswith("torch.")
        text = str(literal_number(value))
        site.put(call, _filled(site, node, text if named or "." in text else ""))


def _expect_number(site: Site, value: ast.expr, dtype: ast.expr | None) -> None:
    """Decline or doubt unless a value is a number that its dtype holds, however it is filled."""
    written = _is_written(site, value)
    large = literal_number(value) is not None and not written
    site.require("range", not large, "the number is larger than what the dtype holds")
    number = written or site.note("number") is not None
    site.require("number", number, "the data are not known to be one Python number")
    typed = written or dtype is not None
    site.require("typed", typed, "the number is not written out, so its dtype is not known")
    site.safe_only_if(
        "written", written, "a number that the dtype cannot hold is refused instead of overflowing"
    )
    truth = isinstance(value, ast.Constant) and isinstance(value.value, bool)
    site.safe_only_if(
        "no-truth", not truth, "a scripted function fills whole numbers, not truth values"
    )
    site.safe_only_if(
        "signed",
        not (_is_negative(value) and _is_unsigned(site, dtype)),
        "a negative number wraps in an unsigned dtype instead of being refused",
    )
    site.safe_only_if(
        "exact",
        not written or is_exact(site, value, dtype),
        "filling, or compiled code, may round or refuse the number otherwise",
    )


_NAMED = {"0": "zeros", "0.0": "zeros", "1": "ones", "1.0": "ones"}


def _filled(site: Site, call: cst.Call, number: str) -> cst.Call:
    """The call that fills: its other arguments stay as they are."""
    torch = use_torch(site)
    name = _NAMED.get(number)
    empty = cst.Arg(cst.Tuple([]), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    first, *others = call.args
    if name is None:
        return call.with_changes(func=expression(f"{torch}.full"), args=[empty, first, *others])
    first = first.with_changes(value=cst.Tuple([]))
    return call.with_changes(func=expression(f"{torch}.{name}"), args=[first, *others])


def _is_written(site: Site, node: ast.expr) -> bool:
    """A literal, or ``float("inf")``."""
    number = literal_number(node)
    if number is not None:
        whole = isinstance(number, int)
        return abs(number) <= (_LARGEST_WHOLE if whole else _LARGEST)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_written(site, node.operand)
    if isinstance(node, ast.Call):
        text = node.args[0] if len(node.args) == 1 and not node.keywords else None
        word = text.value if isinstance(text, ast.Constant) else None
        return site.ask.callee(node) == "builtins.float" and word in _WORDS
    return False


def _is_negative(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)


def _is_unsigned(site: Site, dtype: ast.expr | None) -> bool:
    """Whether a dtype may be unsigned: it says so, or it is not written out."""
    name = site.ask.qualified(dtype) if dtype is not None else ""
    return name is None or name.rpartition(".")[2].startswith("uint")


def _is_read(site: Site, call: ast.Call) -> bool:
    """Whether the tensor is read back at once: ``int(...)``, ``range(...)``, ``.item()``, a bound
    of a slice.
    """
    parent = site.ask.parent(call)
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("item", "tolist", "numpy")
    if isinstance(parent, ast.Call) and call in parent.args:
        return site.ask.callee(parent) in _READERS
    return isinstance(parent, ast.Slice)


# What is asked of a tensor without its values.
_ASKED = frozenset(("shape", "device", "dtype", "ndim", "size", "dim", "numel", "layout"))
# Methods that give the same values in another form.
_SAME = frozenset(("to", "float", "half", "double", "long", "int", "expand", "view", "unsqueeze"))
# Functions that take tensors elementwise or joined, and return one on the device of the others.
_JOINING = frozenset(
    """
        add sub mul div true_divide pow fmod remainder atan2 maximum minimum max min where clamp
        logaddexp lerp eq ne lt le gt ge isin cat concat stack logical_and logical_or matmul bmm
        einsum outer dot
    """.split()
)
_DEPTH = 4


def meets_input(site: Site, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether every use of a new tensor, at once or under a local name, computes something together
    with a tensor that depends on an input: nobody gets the tensor itself, and nobody can read a
    number out of what is computed before the inputs are known.
    """
    child, parent = node, site.ask.parent(node)
    while isinstance(parent, ast.Attribute) and parent.attr in _SAME:
        call = site.ask.parent(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return False
        child, parent = call, site.ask.parent(call)
    if isinstance(parent, (ast.List, ast.Tuple)):
        child, parent = parent, site.ask.parent(parent)
    if isinstance(parent, ast.keyword):
        child, parent = parent.value, site.ask.parent(parent)
    if isinstance(parent, ast.BinOp):
        return _of_input(site, parent.right if parent.left is child else parent.left)
    if isinstance(parent, ast.Compare):
        return len(parent.ops) == 1 and any(
            _of_input(site, side)
            for side in (parent.left, *parent.comparators)
            if side is not child
        )
    if isinstance(parent, ast.AugAssign):
        return parent.value is child and _of_input(site, parent.target)
    if isinstance(parent, ast.Call):
        return parent.func is not child and _joined(site, parent, child)
    return depth > 0 and isinstance(parent, ast.Assign) and _named(site, parent, depth)


def _named(site: Site, statement: ast.Assign, depth: int) -> bool:
    """The same, of the one local name that is given the tensor."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    made = site.ask.definitions.definition_at(target) if isinstance(target, ast.Name) else None
    uses = site.ask.uses(made) if made is not None and site.function is not None else []
    return bool(uses) and all(meets_input(site, use, depth - 1) for use in uses)


def _joined(site: Site, call: ast.Call, child: ast.expr) -> bool:
    """Whether a call of torch computes element by element with an input among its arguments."""
    name = site.ask.callee(call)
    method = method_name(call)
    if name is not None:
        method = name.removeprefix("torch.") if name.startswith("torch.") else ""
    if method not in _JOINING:
        return False
    given = [each for each in call.args if each is not child]
    if name is None and isinstance(call.func, ast.Attribute):
        if not site.ask.is_tensor(call.func.value):
            return False
        given.append(call.func.value)
    if isinstance(child, (ast.List, ast.Tuple)):
        given += child.elts
    return any(_of_input(site, each) for each in given)


def _of_input(site: Site, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether an expression is a tensor whose values depend on a parameter of the function, or on
    one of the module.
    """
    return site.ask.is_tensor(node) and _depends(site, node, depth)


def _depends(site: Site, node: ast.AST, depth: int) -> bool:
    if isinstance(node, ast.Attribute):
        if node.attr in _ASKED:
            return False
        if dotted(node) == f"self.{node.attr}":
            return site.ask.known(node).device is Device.MODEL
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Load, ast.Store)):
        found = site.ask.definitions.reaching_at(node.id, site.ask.statement(node))
        return bool(found) and all(
            (isinstance(each.node, ast.arg) and site.proven_tensor(node))
            or (depth > 0 and each.value is not None and _depends(site, each.value, depth - 1))
            for each in found
        )
    if isinstance(node, ast.Call) and not _keeps_values(site, node):
        return False
    return any(_depends(site, each, depth) for each in ast.iter_child_nodes(node))


def _keeps_values(site: Site, call: ast.Call) -> bool:
    """Whether what a call gives may depend on the values of its arguments: it gives a tensor, and
    makes none of numbers, which a trace knows.
    """
    name = site.ask.callee(call)
    made = name in ("torch.tensor", "torch.as_tensor") or method_name(call) == "new_tensor"
    return not made and site.ask.is_tensor(call)
