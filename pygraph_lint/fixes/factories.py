"""What is known of torch's tensor factories: how they take a device, and whose values do not
depend on it.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import assigned_values, dotted, stores
from pygraph_lint.fixes.proposal import Proposal

# Constant values, or values that are copied: the same bits whichever device writes them.
EXACT = frozenset(
    f"torch.{name}"
    for name in ("zeros", "ones", "empty", "full", "eye", "tensor", "tril_indices", "triu_indices")
)
# Computed values: the same on every device as long as they are integers.
RANGES = frozenset({"torch.arange", "torch.range"})
FACTORIES = EXACT | RANGES
_INTEGER_DTYPES = frozenset(
    f"torch.{name}"
    for name in ("int", "long", "short", "uint8", "int8", "int16", "int32", "int64", "bool")
)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def starred(call: ast.Call) -> bool:
    """Whether keyword arguments come from ``**kwargs``."""
    return any(item.arg is None for item in call.keywords)


def has_integer_values(proposal: Proposal, call: ast.Call, name: str) -> bool:
    """Whether a factory's values are the same on every device, whatever rounding a range takes."""
    if name not in RANGES:
        return True
    dtype = keyword(call, "dtype")
    if dtype is not None and proposal.names.qualified(dtype) in _INTEGER_DTYPES:
        return True
    if dtype is not None or name == "torch.range":
        return False
    bounds = [
        *call.args,
        *(item.value for item in call.keywords if item.arg in ("start", "end", "step")),
    ]
    return all(_integer(proposal, bound) for bound in bounds)


def _integer(proposal: Proposal, node: ast.expr) -> bool:
    """Whether an expression is certainly an integer: a literal, a size, or whole arithmetic on
    such.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int)
    if isinstance(node, ast.UnaryOp):
        return _integer(proposal, node.operand)
    if isinstance(node, ast.BinOp):
        whole = isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod))
        return whole and _integer(proposal, node.left) and _integer(proposal, node.right)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id in ("len", "int") and not proposal.names.taken(node.func.id)
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("size", "dim", "numel")
    if isinstance(node, ast.Name) and proposal.function is not None:
        return _integer_name(proposal, node.id)
    return False


def _integer_name(proposal: Proposal, name: str) -> bool:
    """Whether a local name is only ever bound to sizes and integers (or unpacked from a shape)."""
    assert proposal.function is not None
    bindings = stores(proposal.function, name)
    if len(bindings) == 1 and isinstance(bindings[0], ast.arg):
        note = bindings[0].annotation
        return isinstance(note, ast.Name) and note.id == "int"
    values = assigned_values(proposal.function, name)
    if values is not None:
        inner = [node for value in values for node in ast.walk(value)]
        own = {node.id for node in inner if isinstance(node, ast.Name)}
        return name not in own and all(_integer(proposal, value) for value in values)
    return len(bindings) == 1 and any(
        isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Tuple)
        and bindings[0] in node.targets[0].elts
        and _is_shape(node.value)
        for node in ast.walk(proposal.function)
    )


def _is_shape(node: ast.expr) -> bool:
    """``x.shape``, ``x.size()``, or a slice of one."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        node = node.value
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "size" and not node.args
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def is_device(proposal: Proposal, node: ast.expr) -> bool:
    """Whether an expression is certainly a device, and not a dtype or a tensor."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Attribute):
        return node.attr == "device" and dotted(node) is not None
    if proposal.names.callee(node) == "torch.device":
        return True
    if isinstance(node, ast.IfExp):
        return is_device(proposal, node.body) and is_device(proposal, node.orelse)
    if isinstance(node, ast.Name) and proposal.function is not None:
        bindings = stores(proposal.function, node.id)
        if len(bindings) == 1 and isinstance(bindings[0], ast.arg):
            annotation = bindings[0].annotation
            return annotation is not None and _device_annotation(proposal, annotation)
        values = assigned_values(proposal.function, node.id) or [node]
        return not any(isinstance(value, ast.Name) for value in values) and all(
            is_device(proposal, value) for value in values
        )
    return False


def _device_annotation(proposal: Proposal, node: ast.expr) -> bool:
    """``torch.device``, or ``torch.device | str | None`` and the like."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return all(_device_annotation(proposal, side) for side in (node.left, node.right))
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        generic = (dotted(node.value) or "").rpartition(".")[2]
        return generic in ("Optional", "Union") and all(
            _device_annotation(proposal, each) for each in inner
        )
    if isinstance(node, ast.Constant):
        return node.value is None or node.value in ("torch.device", "str")
    return proposal.names.qualified(node) == "torch.device" or (
        isinstance(node, ast.Name) and node.id in ("str", "int")
    )


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
