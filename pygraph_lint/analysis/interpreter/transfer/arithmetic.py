"""Dtype, rank, device and value of arithmetic."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need, any_of
from pygraph_lint.analysis.domain.values import Value


def merge_needs(a: Value, b: Value) -> tuple[Need, ...]:
    """What has to be confirmed for the result of an operation on two values to be a tensor."""
    if all(value.is_tensor or value.is_doubtful_number for value in (a, b)):
        return any_of(a.needs, b.needs)
    return a.needs if a.is_tensor else b.needs


def of_numbers(left: Value, right: Value) -> Value:
    """The number that is computed of two values, one of which is a number."""
    read = (left.flags | right.flags) & v.READ
    doubtful = [value for value in (left, right) if value.is_doubtful_number]
    if not doubtful or v.UNKNOWN & (left.kinds | right.kinds):
        return Value(v.NUMBER, flags=read)
    needs = doubtful[0].needs if len(doubtful) == 1 else any_of(left.needs, right.needs)
    return Value(v.NUMBER, flags=read, needs=needs, why=doubtful[0].why)


def merge_device(values: list[Value]) -> int:
    """Where the result of an operation lives: the device wins over the host. What meets a host
    tensor with dimensions is on no device, unless that is known; numbers, for which some call may
    pass tensors, decide nothing beside others.
    """
    tensors = [value for value in values if value.is_tensor]
    tensors = [value for value in tensors if not value.kinds & v.NUMBER] or tensors
    if any(value.device == v.ON_HOST and value.ndim != 0 for value in tensors):
        tensors = [value for value in tensors if value.kinds == v.TENSOR]
    found = {value.device for value in tensors}
    if v.ON_DEVICE in found:
        return v.ON_DEVICE
    return v.ON_HOST if found == {v.ON_HOST} else v.ANYWHERE


def merge_device_of(values: list[Value]) -> Need | None:
    """The value from elsewhere on whose device all tensors are; see ``merge_device``."""
    tensors = [value for value in values if value.kinds & v.TENSOR]
    tensors = [value for value in tensors if not value.kinds & v.NUMBER] or tensors
    found = [value.device_of for value in tensors]
    first = found[0] if found else None
    return (
        first if all(device_of is first or device_of == first for device_of in found[1:]) else None
    )


def inherited_flags(values: list[Value]) -> int:
    """What a result has of its operands' flags. What is computed from a draw, or from a test for
    inf or nan, and from other tensors depends on these, too: it is neither. So does what is
    computed from numbers alone.
    """
    flags = 0
    for value in values:
        flags |= value.flags & v.FLOW
    tensors = [value for value in values if value.is_tensor]
    for pure in (v.RANDOM, v.FINITE, v.FIXED):
        if any(not value.flags & pure for value in tensors):
            flags &= ~pure
    return flags


def identity(positive: bool, left: Value, right: Value) -> bool | None:
    """``left is right``, or ``left is not right``, where the kinds leave no choice."""
    if right.kinds == v.NONE:
        if left.kinds == v.NONE:
            return positive
        if not left.kinds & (v.NONE | v.UNKNOWN) and not left.needs and not left.flags & v.BUFFER:
            return not positive
    return None


def arithmetic_dtype(operator: type[ast.operator], left: Value, right: Value) -> str:
    """The dtype of an arithmetic result, empty where promotion is not known."""
    if operator is ast.Div:
        return "float"
    kinds = {value.dtype for value in (left, right) if value.is_tensor}
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind == "bool" and operator not in (ast.BitAnd, ast.BitOr, ast.BitXor):
            masks = left.is_tensor and right.is_tensor and operator in (ast.Add, ast.Mult)
            return "bool" if masks else "int"
        other = right if left.is_tensor else left
        if kind == "int" and isinstance(other.const, float):
            return "float"
        return kind
    if "float" in kinds:
        return "float"
    return ""


def broadcast_rank(left: Value, right: Value) -> int:
    """The rank of a broadcast result, -1 where it is not known."""
    ranks = []
    for value in (left, right):
        if value.is_tensor:
            number = value.kinds == v.TENSOR | v.NUMBER and value.needs  # a number, or a 0-d tensor
            if value.ndim < 0 and not number:
                return -1
            ranks.append(max(value.ndim, 0))
        elif not value.kinds & (v.NUMBER | v.OTHER) or value.kinds & v.UNKNOWN:
            return -1
    return max(ranks) if ranks else -1


def fold(operator: type[ast.operator], left: object, right: object) -> object | None:
    """The result of arithmetic on constants, None where it is not folded."""
    if not isinstance(left, (bool, int, float)) or not isinstance(right, (bool, int, float)):
        return None
    if operator is ast.BitOr and isinstance(left, bool) and isinstance(right, bool):
        return left or right
    if operator is ast.BitAnd and isinstance(left, bool) and isinstance(right, bool):
        return left and right
    if operator is ast.Add:
        return left + right
    if operator is ast.Sub:
        return left - right
    return None


def settled(operator: type[ast.operator], left: Value, right: Value) -> bool | None:
    """``True | x`` and ``False & x`` of flags, whatever the other one is; None for others."""
    for one, other in ((left, right), (right, left)):
        flag = other.needs or not other.kinds & (v.TENSOR | v.NUMPY | v.SEQUENCE | v.MAPPING)
        if flag and operator is ast.BitOr and one.const is True:
            return True
        if flag and operator is ast.BitAnd and one.const is False:
            return False
    return None


def fold_compare(operator: ast.cmpop, left: object, right: object) -> bool | None:
    """The result of comparing constants, None where it is not folded."""
    if isinstance(operator, ast.Eq):
        return left == right
    if isinstance(operator, ast.NotEq):
        return left != right
    return None
