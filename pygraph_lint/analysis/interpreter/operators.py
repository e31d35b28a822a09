"""Operators: arithmetic, comparisons, boolean operators, conditional expressions."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import EVERY
from pygraph_lint.analysis.domain.symbols import as_made, constant
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import note_formatted
from pygraph_lint.analysis.interpreter.conditions import (
    asked,
    guard,
    guarded,
    narrow,
    only_if,
    settle_comparisons,
    truth,
)
from pygraph_lint.analysis.interpreter.host_tensors import OTHER_DEVICES, note_met
from pygraph_lint.analysis.interpreter.project_calls import note_operator, operator_call
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import (
    arithmetic_dtype,
    broadcast_rank,
    fold,
    fold_compare,
    identity,
    inherited_flags,
    merge_device,
    merge_device_of,
    merge_needs,
    of_numbers,
    settled,
)
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import combined
from pygraph_lint.analysis.syntax.nodes import span_to

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.MatMult: "matmul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_TEXT_OR_NONE = v.TEXT | v.NONE


def eval_binary(state: State, node: ast.BinOp) -> Value:
    """``a + b``."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):  # long sums are nested to the left
        chain.append(chain[-1].left)
    left = state.ev(chain[-1].left)
    for operation in reversed(chain):
        right = state.ev(operation.right)
        note_met(state, operation.left, left, right)
        note_met(state, operation.right, right, left)
        if isinstance(operation.op, ast.Pow) and left.const is not None and right.flags & v.READ:
            state.note_needed(operation.right)  # whether the power is a whole number
        made = _of_objects(state, operation, left, right)
        if made is None:
            made = arithmetic(state, type(operation.op), left, right, operation)
        left = made
    return left


def _of_objects(state: State, node: ast.BinOp, left: Value, right: Value) -> Value | None:
    """What an operator gives that one of the two objects defines; None for others."""
    name = OPERATORS[type(node.op)]
    note_operator(state, node, left, right)
    note_operator(state, node, right, left)
    if name == "matmul" and right.kinds == v.INSTANCE:
        note_operator(state, node, left, right, f"__{name}__")
    if left.kinds & (v.INSTANCE | v.UNKNOWN):
        return operator_call(state, node, f"__{name}__", node.left, left, node.right)
    return operator_call(state, node, f"__r{name}__", node.right, right, node.left)


def arithmetic(
    state: State, operator: type[ast.operator], left: Value, right: Value, node: ast.AST
) -> Value:
    """The result of ``left <operator> right``."""
    kinds = (left.kinds | right.kinds) & ~v.NONE
    flag = settled(operator, left, right)
    if flag is not None:
        return constant(flag)
    if left.kinds & v.TEXT and not left.kinds & v.TENSOR:
        if operator is ast.Mod:
            note_formatted(state, right, node, form="percent")
        return v.TEXT_VALUE
    if left.kinds == v.SEQUENCE and operator is ast.Mult and (right.needs or not right.is_tensor):
        return Value(v.SEQUENCE, item=v.element(left), flags=left.flags & v.LIST)
    if v.NUMPY in (left.kinds, right.kinds) and (left if right.kinds == v.NUMPY else right).needs:
        return combined(left, right)
    if kinds & v.TENSOR:
        if (left.kinds | right.kinds) & v.SEQUENCE and operator is ast.Add:
            return v.SEQUENCE_VALUE
        return _computed(arithmetic_dtype(operator, left, right), left, right)
    if left.kinds & v.SEQUENCE and operator is ast.Mult:
        return Value(v.SEQUENCE, item=v.element(left), flags=left.flags & v.LIST)
    if left.kinds & v.SEQUENCE and right.kinds & v.SEQUENCE and operator is ast.Add:
        return _concatenated(left, right)
    if kinds & v.NUMPY:
        return combined(left, right)
    return _of_constants(operator, left, right)


def _concatenated(left: Value, right: Value) -> Value:
    """A list or tuple behind another one."""
    if left.items is not None and right.items is not None:
        return v.sequence([*left.items, *right.items])
    return Value(v.SEQUENCE, item=v.join(v.element(left), v.element(right)))


def _of_constants(operator: type[ast.operator], left: Value, right: Value) -> Value:
    """What is computed from what is neither a tensor nor an array."""
    if left.const is not None and right.const is not None:
        folded = fold(operator, left.const, right.const)
        if folded is not None:
            return constant(folded)
    numbers = (left.kinds | right.kinds) & ~v.NONE in (v.NUMBER, v.NUMBER | v.OTHER, v.OTHER)
    return of_numbers(left, right) if numbers else v.UNKNOWN_VALUE


def _computed(dtype: str, left: Value, right: Value) -> Value:
    """The tensor that an operation on two values gives, at least one of which is a tensor."""
    source = left if left.is_tensor and not (left.needs and right.is_tensor) else right
    device = merge_device([left, right])
    if _is_made_at_home(left, right) or _is_made_at_home(right, left):
        device = v.ON_HOST
    result = v.tensor(
        source.why,
        dtype,
        device,
        broadcast_rank(left, right),
        inherited_flags([left, right]),
        merge_needs(left, right),
        merge_device_of([left, right]),
    )
    # What is annotated ``float | Tensor``, and a number, may be a number.
    other = left.kinds & right.kinds & v.NUMBER
    if v.TENSOR not in (left.kinds, right.kinds):  # neither is one on every path
        other |= (left.kinds | right.kinds) & v.UNKNOWN
    return result._replace(kinds=result.kinds | other) if other and not result.needs else result


def _is_made_at_home(one: Value, other: Value) -> bool:
    """Whether a tensor with dimensions is made on the host, and another one is only believed to be
    on the device: what no operator takes together is in one place. A parameter decides nothing: it
    may be a number.
    """
    made = one.device == v.ON_HOST and one.ndim > 0 and one.must_be_tensor and not one.needs
    return made and any(need.kind != "param" for need in other.needs)


def eval_unary(state: State, node: ast.UnaryOp) -> Value:
    """``-a``, ``not a``."""
    if isinstance(node.op, ast.Not):
        static = truth(state, node.operand, "branch.not")
        return Value(v.NUMBER, const=None if static is None else not static)
    value = state.ev(node.operand)
    if isinstance(node.op, ast.Invert):
        note_operator(state, node, value, value, "__invert__")
    if value.is_tensor and isinstance(node.op, ast.Invert) and not value.dtype:
        value = value._replace(dtype="bool")  # ~ is for masks; of integers it is a rarity
    if value.is_tensor:
        return value._replace(flags=value.flags & ~(v.FRESH | v.SYMBOL | v.PLAIN | v.BUFFER))
    if value.kinds == v.NUMBER:
        if isinstance(node.op, ast.USub) and isinstance(value.const, (int, float)):
            return constant(-value.const)
        return value._replace(const=None)
    return value if value.kinds & v.NUMPY else v.UNKNOWN_VALUE


def eval_compare(state: State, node: ast.Compare) -> Value:
    """``a < b``, ``a < b < c``."""
    left = state.ev(node.left)
    result: Value | None = None
    left_node = node.left
    for operator, right_node in zip(node.ops, node.comparators):
        right = state.ev(right_node)
        if result is not None and result.is_tensor:
            state.event(
                "branch.ternary", span_to(node.left, left_node), "a chained comparison", result
            )
        result = compare(state, operator, left_node, left, right_node, right)
        left, left_node = right, right_node
    assert result is not None
    if result.flags & v.RANDOM and node in state.settled:
        return v.NUMBER_VALUE
    return result


def compare(
    state: State,
    operator: ast.cmpop,
    left_node: ast.expr,
    left: Value,
    right_node: ast.expr,
    right: Value,
) -> Value:
    """One comparison."""
    if left.kinds == v.CALLABLE and _is_of_package(state, left):  # or any variable of it
        left = left._replace(kinds=v.CALLABLE | v.UNKNOWN)
    if isinstance(operator, (ast.Is, ast.IsNot)):
        return Value(v.NUMBER, const=identity(isinstance(operator, ast.Is), left, right))
    if isinstance(operator, (ast.Eq, ast.NotEq)) and right.kinds == v.NONE:
        known = identity(isinstance(operator, ast.Eq), left, right)
        if known is not None:
            return Value(v.NUMBER, const=known)
    if _asks_for_other_device(state, left_node, right_node):
        return Value(v.NUMBER, const=isinstance(operator, (ast.NotEq, ast.NotIn)))
    if isinstance(operator, (ast.In, ast.NotIn)):
        membership(state, operator, left_node, left, right_node, right)
        return v.NUMBER_VALUE
    for one, other in ((left, right), (right, left)):
        if one.flags & v.RANDOM and one.kinds == v.NUMBER and (other.needs or not other.is_tensor):
            return one
        if one.flags & v.RANDOM and one.device == v.ON_HOST and _may_be_a_rate(other):
            return one._replace(dtype="bool")  # a rate
    if not (left.kinds | right.kinds) & v.TENSOR:
        return _compare_plain(operator, left, right)
    if _gives_a_number(left, right) or _gives_a_number(right, left):
        return v.NUMBER_VALUE
    note_met(state, left_node, left, right)
    note_met(state, right_node, right, left)
    why = left.why if left.is_tensor else right.why
    return _computed("bool", left, right)._replace(why=why)


def _may_be_a_rate(value: Value) -> bool:
    """Whether a value is an attribute of which only another file says what it is, or what a
    parameter holds that need not be a tensor.
    """
    need = value.needs[0] if value.needs else None
    kept = need is not None and need.kind == "attr" and bool(value.kinds & v.UNKNOWN)
    return kept or (need is not None and need.kind == "param" and bool(value.flags & v.SYMBOL))


def _asks_for_other_device(state: State, left: ast.expr, right: ast.expr) -> bool:
    """``x.device.type == "mps"``, ``"mps" in x.device.type``: findings are about CUDA devices and
    the host.
    """
    if isinstance(left, ast.Constant):
        left, right = right, left
    if not isinstance(left, ast.Attribute) or left.attr != "type":
        return False
    listed = right.elts if isinstance(right, (ast.List, ast.Tuple, ast.Set)) else [right]
    others = [isinstance(each, ast.Constant) and each.value in OTHER_DEVICES for each in listed]
    return bool(others) and all(others) and bool(state.ev_quiet(left.value).kinds & v.DEVICE)


def _is_of_package(state: State, named: Value) -> bool:
    """Whether what is named by its qualified name is defined in the package of this file."""
    return named.cls.partition(".")[0] == state.module.name.partition(".")[0]


def _compare_plain(operator: ast.cmpop, left: Value, right: Value) -> Value:
    """A comparison without tensors."""
    if left.kinds & v.NUMPY or right.kinds & v.NUMPY:
        return combined(left, right)
    if left.const is not None and right.const is not None:
        return Value(v.NUMBER, const=fold_compare(operator, left.const, right.const))
    return of_numbers(left, right)


def _gives_a_number(tensor: Value, other: Value) -> bool:
    """Whether comparing what may be a tensor with a text, None or a container gives no tensor."""
    if not tensor.is_tensor or other.is_tensor:
        return False
    plain = _TEXT_OR_NONE | v.SEQUENCE | v.MAPPING | v.DTYPE | v.DEVICE
    if other.kinds & plain and not other.kinds & v.UNKNOWN:
        return True
    return bool(tensor.needs) and isinstance(other.const, (str, bool))


def membership(
    state: State,
    operator: ast.cmpop,
    left_node: ast.expr,
    left: Value,
    right_node: ast.expr,
    right: Value,
) -> None:
    """``left in right``: compares values where either side holds tensors. In a container that is
    traced, up to the branch on it.
    """
    if right.is_tensor and not right.kinds & (v.SEQUENCE | v.MAPPING):
        if not right.needs and left.kinds != v.TEXT:  # no tensor has a text in it
            state.event("branch.membership", span_to(left_node, right_node), "in", right)
    elif left.is_tensor and not left.needs and right.kinds & v.SEQUENCE:
        if right.items is not None and all(_never_equal(item) for item in right.items):
            return
        notes = {"form": "container"} if isinstance(operator, ast.In) else {}
        state.event("branch.membership", span_to(left_node, right_node), "in", left, **notes)


def _never_equal(value: Value) -> bool:
    """Whether no tensor is equal to the value: comparing asks for no tensor's value."""
    return not value.kinds & ~(v.NONE | v.TEXT | v.DTYPE | v.DEVICE | v.CALLABLE)


def eval_boolean(state: State, node: ast.BoolOp) -> Value:
    """``a and b``, ``a or b``: later operands are evaluated where the first decide nothing."""
    result: Value | None = None
    saved_guards = state.guards
    saved: list[tuple[str, Value | None]] = []
    conjunction = isinstance(node.op, ast.And)
    settle_comparisons(state, node)
    last = len(node.values) - 1
    for index, operand in enumerate(node.values):
        if index == last:
            value = state.ev(operand)
            static: bool | None = bool(value.const) if value.const is not None else None
        else:
            before, guards = state.ev_quiet(operand), state.guards
            if not conjunction and before.is_tensor and before.kinds & v.NONE:
                state.guards = (*guards, EVERY)  # `x or y`: an x that is given is mostly no number
            static = truth(state, operand, "branch.ternary")
            state.guards = guards
            value = before._replace(const=None)
        result = value if result is None else v.join(as_made(result, value), value)
        if static is not None and static != conjunction and index < last:
            result = Value(v.NUMBER, const=static) if result.kinds == v.NUMBER else result
            break
        if index < last:
            guard(state, operand, conjunction)
            saved += narrow(state, operand, conjunction)
    state.guards = saved_guards
    state.restore(saved)
    assert result is not None
    return result


def eval_conditional(state: State, node: ast.IfExp) -> Value:
    """``a if test else b``."""
    static = truth(state, node.test, "branch.ternary")
    if static is True:
        return state.ev(node.body)
    if static is False:
        return state.ev(node.orelse)
    before = state.guards
    results = []
    for outcome, part in ((True, node.body), (False, node.orelse)):
        state.guards = guarded(state, node.test, outcome)
        saved = narrow(state, node.test, outcome)
        results.append(state.ev(part))
        state.restore(saved)
        state.guards = before
    then, other = results
    then_needs, other_needs = (
        asked(before, guarded(state, node.test, outcome)) for outcome in (True, False)
    )
    return v.join(only_if(then, other, then_needs), only_if(other, then, other_needs))
