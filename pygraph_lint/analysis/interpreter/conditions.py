"""Conditions: who decides them, what they say about names, what runs only if they hold."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.class_tests import (
    DISPLAYS,
    class_test,
    exact_class,
    kind_of_class,
)
from pygraph_lint.analysis.domain.events import EVERY, NEVER, Need, Needs
from pygraph_lint.analysis.domain.symbols import as_tensor
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.interpreter.tensor_conditions import (
    asks_for_half_precision,
    without_elements,
)
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import compares, decides
from pygraph_lint.analysis.syntax.literal_tests import (
    LiteralTest,
    ParameterTest,
    TestKind,
    asks_for_none,
    comparison,
)
from pygraph_lint.analysis.syntax.nodes import (
    compared,
    is_zero,
    source_of,
    span_of,
    without_not,
)


def truth(state: State, node: ast.expr, kind: str) -> bool | None:
    """Evaluate a condition; records an event where a tensor decides. Returns its value where
    that is fixed.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = truth(state, node.operand, "branch.not" if kind == "branch.assert" else kind)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        return truth_of_all(state, node, kind)
    value = state.ev(node)
    if kind != "branch.assert" or (isinstance(node, ast.Compare) and len(node.ops) > 1):
        state.note_needed(node)  # a plain assert is traced
    if value.is_tensor or value.is_doubtful_number:
        decided_by(state, node, value, kind)
        compares(state, node, kind)
        return None
    if value.kinds == v.NUMBER and value.flags & v.RANDOM and kind != "branch.not":
        state.event("branch.random-skip", span_of(node), source_of(node), value)
    found = ("branch.membership", node.lineno, node.col_offset)
    if found in state.events and state.events[found].note("form") is not None:
        state.events[found] = state.events[found]._replace(notes=(("form", "branch"),))
    decides(state, node, value, kind)
    if value.const is not None:
        return bool(value.const)
    if value.kinds == v.NONE:
        return False
    return None


def truth_of_all(state: State, node: ast.BoolOp, kind: str) -> bool | None:
    """``and`` / ``or`` as a condition: later operands run only where earlier ones allow it."""
    conjunction = isinstance(node.op, ast.And)
    settle_comparisons(state, node)
    saved_guards = state.guards
    saved: list[tuple[str, Value | None]] = []
    result: bool | None = conjunction
    halves = 0
    for operand in node.values:
        # What an assert asks last is traced; what decides whether it is asked is a branch.
        jumps = kind == "branch.assert" and operand is not node.values[-1]
        static = truth(state, operand, "branch.if" if jumps else kind)
        if static is None:
            result = None
        elif static != conjunction:
            result = static
            break
        guard(state, operand, conjunction)
        saved += narrow(state, operand, conjunction)
        halves += conjunction and asks_for_half_precision(state, operand)
        state.half += conjunction and asks_for_half_precision(state, operand)
    state.half -= halves
    state.guards = saved_guards
    state.restore(saved)
    return result


def settle_comparisons(state: State, node: ast.BoolOp) -> None:
    """Remember comparisons that only happen where a probability is not zero.

    In ``p > 0 and draw < p`` the usual probability of zero decides while tracing.
    """
    if not isinstance(node.op, ast.And):
        return
    asked: set[str] = set()
    for operand in node.values:
        parts = compared(operand)
        if parts is None or not isinstance(operand, ast.Compare):
            continue
        left, operator, right = parts
        if is_zero(right) and isinstance(operator, ast.Gt):
            asked.add(ast.unparse(left))
        elif asked and asked & {ast.unparse(left), ast.unparse(right)}:
            state.settled.add(operand)


def decided_by(state: State, node: ast.expr, value: Value, kind: str) -> None:
    """A tensor's value decides which way the program goes."""
    notes = {"raises": "yes"} if kind in ("branch.raise", "branch.assert") else {}
    kind = _kind_of_branch(state, value, kind)
    if state.stops is not None and kind == "branch.random-skip":
        if value.flags & v.DECIDED:  # in a loop later branches on a number follow the first
            return
        key = state.place(node)
        if key is not None:
            state.env[key] = value._replace(flags=value.flags | v.DECIDED)
    guards = kind in ("branch.finite-guard", "branch.half-guard")
    # A guard is one thing, however many tests it has.
    place = state.whole if guards and state.whole is not None else node
    before = state.guards
    if isinstance(node, (ast.Name, ast.Attribute)) and value.flags & v.SYMBOL:
        # The bare truth of what comes from elsewhere is mostly that of a flag, or of an object.
        state.guards = (*state.guards, EVERY)
    if value.kinds & v.TENSOR:
        # None has no value to wait for.
        _guard_value(state, node, LiteralTest(TestKind.NONE), False)
    state.event(kind, span_of(place), source_of(place), value, **notes)
    state.guards = before


def _kind_of_branch(state: State, value: Value, kind: str) -> str:
    """The kind of event, by what the value says of its tensor: finite, or drawn on the host."""
    if kind in ("branch.assert", "branch.while"):
        return kind
    if value.flags & v.FINITE:
        return "branch.half-guard" if state.half else "branch.finite-guard"
    return "branch.random-skip" if value.flags & v.RANDOM and value.device == v.ON_HOST else kind


def guard(state: State, node: ast.expr, outcome: bool) -> None:
    """Remember that what follows runs only where a condition comes out so."""
    node, outcome = without_not(node, outcome)
    if isinstance(node, ast.BoolOp):
        _guard_by_parts(state, node, outcome)
        return
    literal = comparison(node)
    if literal is not None:
        _guard_value(state, *literal[:2], literal[2] == outcome)
    of_class = class_test(state.qualified, node)
    if of_class is not None:
        _guard_kind(state, *of_class[:2], outcome == of_class[2])
    if isinstance(node, ast.Call):
        _guard_by_call(state, node, outcome)


def _guard_by_parts(state: State, node: ast.BoolOp, outcome: bool) -> None:
    """The same of ``and`` and ``or``: what is known of each part."""
    told = node.values
    if isinstance(node.op, ast.And) != outcome:  # `not (x is not None and ...)`: with an x
        others = [each for each in told if not _asks_for_any(each, not outcome)]
        given = isinstance(others[0], ast.Call) if others else False
        given = given or not any(_is_left_out(state, each) for each in told)
        told = others if len(others) == 1 and given else []
        if not told:
            _guard_any(state, node.values, outcome)
    for operand in told:
        guard(state, operand, outcome)


def _guard_by_call(state: State, node: ast.Call, outcome: bool) -> None:
    """The same of a predicate of the project: ``exists(x)``, ``is_sorted(x)``."""
    name = state.qualified(node.func)
    of_none = state.module.asks_for_none(name or "")
    if of_none is not None and len(node.args) == 1:  # `exists(x)`
        _guard_value(state, node.args[0], LiteralTest(TestKind.NONE), outcome == of_none)
    if name is None or name.startswith(("torch.", "builtins.")):
        return
    if name.rpartition(".")[2].startswith(("is_", "_is_", "has_")):
        state.guards = (*state.guards, Need("true" if outcome else "false", name, ""))


def _asks_for_any(node: ast.expr, outcome: bool) -> bool:
    """Whether a condition has an outcome where there is anything: ``x is not None``."""
    return asks_for_none(node) is (not outcome)


def _is_left_out(state: State, node: ast.expr) -> bool:
    """Whether a condition asks for a parameter that calls may leave out."""
    left = getattr(node, "left", None)
    return (getattr(left, "id", ""), v.NONE_VALUE) in state.function.defaults


def _guard_value(state: State, node: ast.expr, test: LiteralTest, outcome: bool) -> None:
    """Remember that what follows runs only if a test of a parameter, or of an attribute that may
    keep one, can come out so.
    """
    if isinstance(node, ast.Name) and node.id not in state.passed:
        node = state.body.aliases.get(node.id, node)
    if isinstance(node, ast.Attribute):
        owner = state.owner if state.is_option(node) else _class_of(state, node.value)
        if owner:
            tests = (ParameterTest(node.attr, test, outcome),)
            state.guards = (*state.guards, Need("set", owner, "", tests=tests))
        return
    name = _parameter(state, node)
    if not name:
        return
    before = [need for need in state.guards if need.kind == "may"]
    all_tests = (
        *(each for need in before for each in need.tests),
        ParameterTest(name, test, outcome),
    )
    others = tuple(need for need in state.guards if need.kind != "may")
    state.guards = (*others, Need("may", state.function.name, "", tests=all_tests))


def _class_of(state: State, node: ast.expr) -> str:
    """The class of a module that the object has; empty for other objects."""
    if not isinstance(node, ast.Attribute) or not state.is_option(node):
        return ""
    value = state.ev_quiet(node)
    return value.cls if value.kinds & v.INSTANCE and "," not in value.cls else ""


def guard_other_than_tensor(state: State, node: ast.expr) -> None:
    """Remember that what follows only matters if a call passes something else than a tensor."""
    _guard_value(state, node, LiteralTest(TestKind.KIND, (), v.TENSOR), False)


def guarded(state: State, node: ast.expr, outcome: bool) -> Needs:
    """The guards of what runs only if a condition comes out as ``outcome``."""
    before = state.guards
    guard(state, node, outcome)
    after, state.guards = state.guards, before
    return after


def asked(before: Needs, after: Needs) -> Needs:
    """What calls have to pass for a condition to come out so that ``after`` are the guards."""
    return tuple(need for need in after if need.kind in ("may", "set") and need not in before)


def only_if(value: Value, other: Value, needs: Needs) -> Value:
    """What one arm gives: where the other gives no tensor, a tensor only if calls take the arm."""
    if other.is_tensor or not value.is_tensor or value.flags & v.SYMBOL:
        return value
    if any(need.kind == "any" for need in value.needs):  # each turn of a loop would nest it deeper
        return value
    return value._replace(needs=tuple(dict.fromkeys((*value.needs, *needs))))


def _parameter(state: State, node: ast.expr) -> str:
    """The parameter whose value an expression still is; empty for others."""
    if not isinstance(node, ast.Name):
        return ""
    value = state.env.get(node.id, v.UNKNOWN_VALUE)
    if node.id in state.unchanged or value is state.passed.get(node.id):
        return node.id
    need = value.needs[0] if value.flags & v.SYMBOL and value.needs else NEVER
    own = need.kind == "param" and need.owner == state.function.name and "|" not in need.name
    return need.name if own else ""


def _guard_kind(state: State, node: ast.expr, kinds: int, outcome: bool) -> None:
    """Remember what a test of a value's kind says: arrays stay out of compiled code, and a caller
    has to pass something of that kind.
    """
    if outcome and kinds == v.NUMPY and state.ev_quiet(node).kinds != v.NUMPY:
        state.guards = (*state.guards, NEVER)
    _guard_value(state, node, LiteralTest(TestKind.KIND, (), kinds), outcome)


def _of_calls(guards: Needs) -> Needs:
    return tuple(need for need in guards if need.kind == "may")


def _guard_any(state: State, parts: list[ast.expr], outcome: bool) -> None:
    """Remember that callers have to pass what lets one of several conditions come out so."""
    before = state.guards
    choices: list[Needs] = []
    for each in parts:
        state.guards = ()
        guard(state, each, outcome)
        choices.append(_of_calls(state.guards))
    state.guards = (*before, Need("any", "", "", tuple(choices))) if all(choices) else before


def narrow(state: State, node: ast.expr, outcome: bool) -> list[tuple[str, Value | None]]:
    """Use what a condition says about a name; returns what to put back."""
    node, outcome = without_not(node, outcome)
    if isinstance(node, ast.BoolOp):
        saved: list[tuple[str, Value | None]] = []
        if isinstance(node.op, ast.And) == outcome:
            for operand in node.values:
                saved += narrow(state, operand, outcome)
        return saved
    name, value = narrowed(state, node, outcome)
    if name is None or value is None:
        return []
    before = [(name, state.env.get(name))]
    state.env[name] = value
    return before


def narrowed(state: State, node: ast.expr, outcome: bool) -> tuple[str | None, Value | None]:
    """The name a test is about, and its value where the test came out as ``outcome``."""
    if isinstance(node, ast.Call) and node.args:
        return _narrowed_by_call(state, node, outcome)
    exact = exact_class(state.qualified, node)
    if exact is not None:
        of, cls, positive = exact
        value = narrowed_by_class(state, state.ev_quiet(of), cls, outcome == positive)
        return state.place(of), value
    held = without_elements(state, node, outcome)
    if held is not None:
        return state.place(held), state.ev_quiet(held)._replace(items=(), item=None, keys=None)
    of_none = asks_for_none(node)
    if of_none is not None and isinstance(node, ast.Compare):
        name = state.place(node.left)
        if name is None:
            return None, None
        value = state.ev_quiet(node.left)
        if of_none == outcome:
            return name, v.NONE_VALUE
        if value.kinds & v.NONE and value.kinds != v.NONE:
            return name, value._replace(kinds=value.kinds & ~v.NONE)
    return None, None


def _narrowed_by_call(
    state: State, node: ast.Call, outcome: bool
) -> tuple[str | None, Value | None]:
    """The same of ``isinstance(x, ...)``, ``torch.is_tensor(x)`` and ``hasattr(x, ...)``."""
    function, first = state.qualified(node.func), node.args[0]
    holder, elements = _of_elements(state, node, outcome)
    if holder is not None:
        return state.place(holder), elements
    name = state.place(first)
    if name is None:
        return None, None
    if function == "torch.is_tensor":
        return name, as_tensor(state.ev_quiet(first), outcome)
    if function == "builtins.hasattr" and not outcome and _is_of_tensors(node.args[-1]):
        return name, as_tensor(state.ev_quiet(first), False)
    if function == "builtins.isinstance" and len(node.args) == 2:
        return name, narrowed_by_class(state, state.ev_quiet(first), node.args[1], outcome)
    return None, None


def _of_elements(
    state: State, node: ast.Call, outcome: bool
) -> tuple[ast.expr | None, Value | None]:
    """The list or tuple of which ``isinstance(xs[0], str)`` says that it holds no tensors, and what
    it is then.
    """
    kinds = class_test(state.qualified, node)
    first = node.args[0]
    if not isinstance(first, ast.Subscript) or not is_zero(first.slice) or kinds is None:
        return None, None
    value = state.ev_quiet(first.value)
    if not outcome or kinds[1] & v.TENSOR or value.kinds != v.SEQUENCE:
        return None, None
    return first.value, value._replace(items=None, item=Value(kinds[1]), keys=None)


def _is_of_tensors(name: ast.expr) -> bool:
    """Whether a text names a method that all tensors have."""
    return isinstance(name, ast.Constant) and name.value in ops.TENSOR_METHODS


def narrowed_by_class(state: State, value: Value, classes: ast.expr, outcome: bool) -> Value | None:
    """A value after ``isinstance`` said ``outcome``."""
    nodes = classes.elts if isinstance(classes, DISPLAYS) else [classes]
    bits = 0
    instance = ""
    for node in nodes:
        name = state.qualified(node) or ""
        bit = kind_of_class(name)
        if bit == 0:
            instance = name
        bits |= bit
    if outcome:
        if instance:
            return Value(v.INSTANCE, cls=instance) if len(nodes) == 1 else None
        if bits == v.TENSOR:
            return as_tensor(value, True)
        kept = value.kinds & bits
        return (
            value._replace(kinds=kept, needs=value.needs if kept & v.TENSOR else ())
            if kept
            else Value(bits)
        )
    if instance:
        return None
    left = value.kinds & ~bits
    if not left:
        return None
    if not left & v.TENSOR:
        return Value(left, items=value.items, item=value.item, cls=value.cls)
    return value._replace(kinds=left)
