"""What calls pass for a parameter, and which tests of it can come out how: literals, defaults and
kinds decide branches that a call path never takes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import KEYWORDS, PLACES, Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.facts import KEYWORDED, STARRED, Call, FunctionFacts
from pygraph_lint.analysis.syntax.literal_tests import LiteralTest, ParameterTest, TestKind

# Calls in loops of which only the name of the method is certain.
_GUESSED = frozenset(("by name", "unique", "resolved", "receiver"))
_LITERALS = (str, int, float, bool, type(None))
_OF_ANY_KIND = v.UNKNOWN | v.INSTANCE | v.OTHER
_TENSOR_OR_UNKNOWN = v.TENSOR | v.UNKNOWN


def may_be(value: Value | None, test: LiteralTest, outcome: bool) -> bool:
    """Whether a test of what is passed can have an outcome; None stands for anything."""
    if value is None or value.kinds & v.UNKNOWN:
        something = value is not None and bool(value.flags & v.MADE)
        return not (something and outcome and test.how is TestKind.NONE)
    if test.how is TestKind.KIND:
        if outcome:
            return bool(value.kinds & (test.kinds | _OF_ANY_KIND))
        of_kind = value.kinds == v.TENSOR or isinstance(value.const, (int, str))
        return not of_kind or not test.kinds & value.kinds
    if value.const is not None or value.kinds == v.NONE:
        return test.outcome(value.const) == outcome
    if test.how is TestKind.NONE:
        return bool(value.kinds & v.NONE) if outcome else value.kinds != v.NONE
    return True


def may_fill(call: Call, facts: FunctionFacts) -> bool:
    """Whether a call has arguments for all parameters without a default. A decorator may pass
    some.
    """
    number = _number_given(call)
    return number is None or number >= facts.required or bool(facts.decorators)


def _number_given(call: Call) -> int | None:
    """How many arguments a call passes; None where stars may pass any number."""
    if any(isinstance(each, str) and each.startswith(STARRED) for each in call.unknown):
        return None
    known = sum(each is not None for each in call.positional) + len(call.named)
    return known + len(call.unknown)


def may_leave_out(facts: FunctionFacts, tests: Iterable[ParameterTest]) -> bool:
    """Whether tests of parameters may come out as said for who passes no options, but inputs that
    are None by default.
    """
    defaults = dict(facts.defaults)
    values = ((defaults.get(name), test, outcome) for name, test, outcome in tests)
    return all(
        may_be(None if value == v.NONE_VALUE else value, test, outcome)
        for value, test, outcome in values
    )


def passed(facts: FunctionFacts, parameter: str, call: Call) -> Value | None:
    """What a call passes for a parameter; None where that is not known."""
    value = dict(call.named).get(parameter)
    index = facts.parameters.index(parameter)
    if call.how == "function" and facts.takes_object and not facts.name.endswith("__init__"):
        index += 1  # `Class.method(object, ...)`
    by_place = parameter not in facts.named_only
    if value is None and by_place and index < len(call.positional):
        value = call.positional[index]
    return value


def argument_or_default(facts: FunctionFacts, parameter: str, call: Call) -> Value | None:
    """The same, or the default where the call passes nothing for the parameter."""
    # By its class only an autograd Function's method is called with all that it names.
    unbound = call.how == "function" and facts.takes_object and not facts.name.endswith("__")
    unbound = unbound and not call.target.endswith(".apply")
    if call.how == "mention" or unbound or facts.decorators or KEYWORDED in call.unknown:
        return None
    if parameter not in facts.parameters:  # one of `**others`, or all of `*others`
        return dict(call.named).get(parameter)
    if STARRED in call.unknown and parameter not in facts.named_only:
        return None
    value = passed(facts, parameter, call)
    if value is not None or {parameter, facts.parameters.index(parameter)} & {*call.unknown}:
        return value
    return dict(facts.defaults).get(parameter)


def is_unknown(facts: FunctionFacts, parameter: str, call: Call) -> bool:
    """Whether a call passes something for a parameter of which nothing is known."""
    places = {parameter, facts.parameters.index(parameter), STARRED}
    value = passed(facts, parameter, call)
    if value is not None:
        return value.kinds == v.UNKNOWN and bool(value.flags & v.MADE)
    return not places.isdisjoint(call.unknown)


def forwarded_parameter(value: Value | None) -> Need | None:
    """The parameter that a passed value is, or is a part of."""
    need = value.needs[0] if value is not None and value.needs else None
    if need is None or need.kind != "param":
        return None
    return need._replace(name=need.name.partition("|")[0])


def obligation_on_caller(value: Value | None, tested: ParameterTest) -> Need | None:
    """What has to be the case of the option that a call hands on, for a test of it."""
    need = value.needs[0] if value is not None and value.needs else None
    if value is None or need is None or "|" in need.name or value.kinds == v.TENSOR:
        return None
    tests = (tested._replace(parameter=need.name),)
    if need.kind == "param" and need.name not in (KEYWORDS, PLACES):
        return Need("may", need.owner, "", tests=tests)
    return Need("set", need.owner, "", tests=tests) if need.kind == "set" else None


def may_be_other_method(facts: FunctionFacts, parameter: str, call: Call) -> bool:
    """Whether a call may be of another method of that name, as it seems to pass a tensor for a
    parameter whose default is a number or a text.
    """
    default = dict(facts.defaults).get(parameter)
    plain = default is not None and bool(default.kinds & (v.NUMBER | v.TEXT))
    return plain and call.how in _GUESSED


def _classes_passed(value: Value | None) -> tuple[str, ...]:
    """The classes of the project that an object which is passed may be of."""
    if value is None or not value.kinds & v.INSTANCE or not value.cls or value.flags & v.MODULE:
        return ()
    return tuple(v.classes(value))


def callables_passed(call: Call) -> list[tuple[str, ...]]:
    """The functions and the classes of objects that a call passes, and the parameters that it
    passes on.
    """
    given = (*call.positional, *(value for _, value in call.named))
    return [(*_functions_passed(each), *_classes_passed(each)) for each in given]


def _functions_passed(value: Value | None) -> tuple[str, ...]:
    """The functions that a passed value may be; of a parameter, ``function|name``."""
    if value is not None and value.kinds & v.CALLABLE and value.cls:
        return tuple(v.classes(value))
    need = value.needs[0] if value is not None and value.flags & v.SYMBOL and value.needs else None
    handed_on = need is not None and need.kind == "param" and "|" not in need.name
    return (f"{need.owner}|{need.name}",) if need is not None and handed_on else ()


def literal_defaults(defaults: dict[str, ast.expr]) -> tuple[tuple[str, Value], ...]:
    """The defaults that are spelled out as literals."""
    return tuple(
        (name, v.NONE_VALUE if node.value is None else Value(_kind(node.value), const=node.value))
        for name, node in defaults.items()
        if isinstance(node, ast.Constant) and isinstance(node.value, _LITERALS)
    )


def _kind(value: object) -> int:
    return v.TEXT if isinstance(value, str) else v.NUMBER


def may_pass(
    facts: FunctionFacts,
    call: Call,
    tests: Iterable[ParameterTest],
    is_tensor: Callable[[Value], bool] | None,
    holds: Callable[[Need], bool],
) -> bool:
    """Whether all tests of a function's parameters can come out as said for one call of it;
    ``is_tensor`` says of what may be a tensor whether it is proven to be one: without it, only
    literals are sure to be of a kind. ``holds`` says what may be the case of what is handed on.
    """
    for parameter, test, outcome in tests:
        value = argument_or_default(facts, parameter, call)
        asked = obligation_on_caller(value, ParameterTest(parameter, test, outcome))
        if asked is not None and not holds(asked):
            return False
        if value is not None and test.how is TestKind.KIND:
            if is_tensor is None:
                value = value if value.const is not None or value.kinds == v.NONE else None
            elif not value.kinds & ~_TENSOR_OR_UNKNOWN and is_tensor(value):
                value = Value(v.TENSOR)
        if not may_be(value, test, outcome):
            return False
    return True


def at_call(value: Value, function: str, site: str) -> Value:
    """What a function returns at one call: its parameters are what that call passes."""
    needs = tuple(_need_at_call(need, function, site) for need in value.needs)
    items, item = value.items, value.item
    if items is not None:
        items = tuple(at_call(each, function, site) for each in items)
    if item is not None:
        item = at_call(item, function, site)
    device_of = (
        _need_at_call(value.device_of, function, site) if value.device_of is not None else None
    )
    return value._replace(needs=needs, items=items, item=item, device_of=device_of)


def _need_at_call(need: Need, function: str, site: str) -> Need:
    choices = tuple(
        tuple(_need_at_call(each, function, site) for each in needs) for needs in need.choices
    )
    here = need.kind in ("param", "may") and need.owner == function
    return need._replace(choices=choices, site=site if here else need.site)
