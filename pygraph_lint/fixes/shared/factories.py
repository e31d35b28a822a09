"""What is known of torch's tensor factories: how they take a device, and whose values do not
depend on it.
"""

from __future__ import annotations

import ast
import struct

from pygraph_lint.analysis.control_flow.statement_graph import Definition
from pygraph_lint.analysis.queries.interface import Type
from pygraph_lint.analysis.syntax.nodes import dotted, is_constant, keyword, last_part
from pygraph_lint.fixes.engine.build import starred
from pygraph_lint.fixes.engine.site import Declined, Site


def _torch(names: str) -> frozenset[str]:
    """The qualified names of what torch has under these."""
    return frozenset(f"torch.{name}" for name in names.split())


# Constant values, or values that are copied: the same bits whichever device writes them.
EXACT = _torch("zeros ones empty full eye tensor tril_indices triu_indices")
# Computed values: the same on every device as long as they are integers.
RANGES = _torch("arange range")
FACTORIES = EXACT | RANGES
# Their numbers fit every dtype; a float that does not fit an integer dtype becomes one number on
# the host and another one on a GPU.
SMALL = _torch("zeros ones eye arange")
INTEGER_DTYPES = _torch("int long short uint8 int8 int16 int32 int64 bool")
FLOATING_DTYPES = _torch("float16 half bfloat16 float32 float float64 double")
#: These keep a number that compiled code does not round.
WIDE = _torch("float32 float float64 double")
#: Every dtype of numbers holds them.
_SMALL = 127
_SIZES = frozenset(("size", "dim", "numel"))


def factory(site: Site, call: ast.Call) -> str:
    """The factory that a call calls, which may get a ``device=``. Raises Declined."""
    name = site.ask.callee(call)
    if name is None or name not in FACTORIES:
        raise Declined(f"the values of `{name}` may differ between devices")
    site.require("starred", not starred(call), "the factory's keywords are not all written out")
    given = {item.arg: item.value for item in call.keywords}
    site.require("no-device", "device" not in given, "the factory has a device already")
    grad = given.get("requires_grad")
    site.require(
        "no-grad",
        grad is None or is_constant(grad, False),
        "with requires_grad the moved tensor is no leaf, the new one would be",
    )
    site.require("no-out", "out" not in given, "the factory writes into out=")
    site.require("not-pinned", "pin_memory" not in given, "the host tensor is pinned on purpose")
    site.safe_only_if(
        "integers",
        has_integer_values(site, call, name),
        "a range of floats may differ in its last bit between devices",
    )
    return name


def has_integer_values(site: Site, call: ast.Call, name: str) -> bool:
    """Whether a factory's values are the same on every device, whatever rounding a range takes."""
    if name not in RANGES:
        return True
    dtype = keyword(call, "dtype")
    if name == "torch.range":
        return False
    if dtype is not None:
        return site.ask.qualified(dtype) in INTEGER_DTYPES
    named = (item.value for item in call.keywords if item.arg in ("start", "end", "step"))
    return all(is_integer(site, bound) for bound in [*call.args, *named])


def is_integer(site: Site, node: ast.expr, depth: int = 8, count: bool = False) -> bool:
    """Whether an expression is certainly a whole number of Python: a literal, a size of what is
    certainly a tensor, or whole arithmetic on such. ``count``: and certainly not below zero.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.UnaryOp):
        return not count and is_integer(site, node.operand, depth)
    if isinstance(node, ast.BinOp):
        whole = (ast.Add, ast.Mult, ast.FloorDiv, ast.Mod, *(() if count else (ast.Sub,)))
        sides = (node.left, node.right)
        return isinstance(node.op, whole) and all(
            is_integer(site, side, depth, count) for side in sides
        )
    if isinstance(node, ast.Subscript):
        return not isinstance(node.slice, ast.Slice) and _is_shape(site, node.value)
    if isinstance(node, ast.Call):
        if site.ask.callee(node) in ("builtins.len", "" if count else "builtins.int"):
            return True
        sized = isinstance(node.func, ast.Attribute) and node.func.attr in _SIZES
        whole_call = bool(node.args) or ast.unparse(node.func).endswith((".dim", ".numel"))
        return sized and whole_call and _of_tensor(site, node.func)
    if isinstance(node, ast.Name) and depth:
        found = site.ask.definitions.reaching(node)
        return bool(found) and all(_defines_integer(site, it, depth - 1, count) for it in found)
    return False


def _of_tensor(site: Site, node: ast.expr) -> bool:
    """Whether an attribute is one of a tensor. Other objects have methods called ``size``, too."""
    if not isinstance(node, ast.Attribute):
        return False
    return node.attr == "shape" or site.proven_tensor(node.value)


def _is_shape(site: Site, node: ast.expr) -> bool:
    """``x.shape``, ``x.size()``, or a slice of one, of what is certainly a tensor."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        node = node.value
    if isinstance(node, ast.Call):
        sized = isinstance(node.func, ast.Attribute) and node.func.attr == "size"
        return sized and not node.args and _of_tensor(site, node.func)
    return isinstance(node, ast.Attribute) and node.attr == "shape" and _of_tensor(site, node)


def _defines_integer(site: Site, each: Definition, depth: int, count: bool) -> bool:
    """Whether a name is given a size or a whole number, or is a parameter annotated so."""
    if isinstance(each.node, ast.arg):
        note = each.node.annotation
        return not count and isinstance(note, ast.Name) and note.id == "int"
    if each.value is not None:
        return is_integer(site, each.value, depth, count)
    target = site.ask.parent(each.node)
    statement = site.ask.parent(target) if target is not None else None
    return (
        isinstance(target, ast.Tuple)
        and isinstance(statement, ast.Assign)
        and not any(isinstance(part, ast.Starred) for part in target.elts)
        and _is_shape(site, statement.value)
    )


def is_device(site: Site, node: ast.expr, depth: int = 4) -> bool:
    """Whether an expression is certainly a device, and not a dtype, a tensor or None."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Attribute):
        may_be = site.ask.known(node).may_be(Type.DEVICE | Type.TEXT | Type.NONE | Type.NUMBER)
        return node.attr == "device" and dotted(node) is not None and may_be
    if site.ask.callee(node) == "torch.device":
        return True
    if isinstance(node, ast.IfExp):
        return all(is_device(site, side, depth) for side in (node.body, node.orelse))
    if not isinstance(node, ast.Name) or not depth:
        return False
    found = site.ask.definitions.reaching(node)
    return bool(found) and all(
        _annotated_device(site, each)
        if isinstance(each.node, ast.arg)
        else each.value is not None and is_device(site, each.value, depth - 1)
        for each in found
    )


def _annotated_device(site: Site, each: Definition) -> bool:
    """Whether a parameter is a device by its annotation (or a text, None)."""
    assert isinstance(each.node, ast.arg)
    annotation = each.node.annotation
    return annotation is not None and _device_annotation(site, annotation)


def _device_annotation(site: Site, node: ast.expr) -> bool:
    """``torch.device``, or ``torch.device | str | None`` and the like."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return all(_device_annotation(site, side) for side in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        generic = last_part(node.value)
        return generic in ("Optional", "Union") and all(
            _device_annotation(site, each) for each in inner
        )
    if isinstance(node, ast.Constant):
        return node.value is None or node.value in ("torch.device", "str")
    # `int` is a dtype to scripted code.
    return site.ask.qualified(node) == "torch.device" or dotted(node) == "str"


def literal_number(node: ast.expr) -> int | float | None:
    """The real number a literal stands for, None for other expressions."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = literal_number(node.operand)
        if inner is None:
            return None
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    return None


def is_exact(site: Site, node: ast.expr, dtype: ast.expr | None) -> bool:
    """Whether the dtype holds a number as it is: every dtype holds small ones with few bits, and a
    known one those that need no rounding. Compiled code does not round what it fills; scripted
    code writes it as a float32 on its way.
    """
    number = literal_number(node)
    if number is None:  # inf and nan
        return dtype is None or site.ask.qualified(dtype) in FLOATING_DTYPES
    if number == 0:
        return True
    (bits,) = struct.unpack("I", struct.pack("f", number))
    single = struct.unpack("f", struct.pack("f", number))[0] == number
    if single and abs(number) <= _SMALL and not bits & 0xFFFF:  # a bfloat16
        return bool(struct.unpack("e", struct.pack("e", number))[0] == number)
    if dtype is None:
        return bool(single and isinstance(number, int) and abs(number) < 2**31)
    return bool(single and site.ask.qualified(dtype) in WIDE)
