"""What all calls of a function agree on for a parameter, a tensor of the host, or what some pass: a
value that numpy made, a mask, or a generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.loops.calls import OF_LOADER
from pygraph_lint.analysis.program.annotations import annotated_parameter
from pygraph_lint.analysis.program.argument_values import forwarded_parameter, passed
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program

Functions = Mapping[str, FunctionFacts]
Callers = Callable[[str], Sequence[Call]]


def always_on_host(
    functions: Functions, callers: Callers, need: Need, seen: frozenset[Need] = frozenset()
) -> bool:
    """Whether every call of a function passes a tensor of the host for a parameter, as it comes of
    ``.cpu()``, or hands on such a parameter.
    """
    facts, calls = functions.get(need.owner), callers(need.owner)
    if facts is None or need.name not in facts.parameters or need in seen or not calls:
        return False
    for call in calls:
        value = passed(facts, need.name, call)
        if value is None:
            return False
        sure = value.device == v.ON_HOST and value.why != OF_LOADER.why and not value.needs
        if value.kinds == v.TENSOR and sure:
            continue
        given = forwarded_parameter(value)
        if given is None or not always_on_host(functions, callers, given, seen | {need}):
            return False
    return True


def some_passes(
    functions: Functions,
    callers: Callers,
    need: Need,
    is_tensor: Callable[[v.Value], bool],
    seen: frozenset[Need] = frozenset(),
) -> bool:
    """Whether some call of a function passes what numpy made for a parameter, or a mask, as the
    need says, or hands on such a parameter as it is. ``is_tensor`` says so of what may be one.
    """
    facts = functions.get(need.owner)
    if facts is None or need.name not in facts.parameters or need in seen:
        return False
    for call in callers(need.owner):
        value = passed(facts, need.name, call)
        if value is None:
            continue
        mask = value.is_mask and value.ndim != 0 and is_tensor(value)
        if mask if need.kind == "mask" else value.kinds == v.NUMPY:
            return True
        handed = forwarded_parameter(value) if value.flags & v.SYMBOL else None
        whole = handed is not None and value.needs[0].name == handed.name
        given = handed if whole else annotated_parameter(value)
        if given is not None:
            asked = given._replace(kind=need.kind)
            if some_passes(functions, callers, asked, is_tensor, seen | {need}):
                return True
    return False


def may_be_generator(
    program: Program, callers: Callers, holds: Callable[[Need], bool], need: Need
) -> bool:
    """Whether an attribute of a class may hold a generator, or some call passes one for a
    parameter without a default. ``holds`` says so of what these are.
    """
    facts, owner = program.functions.get(need.owner), program.class_named(need.owner)
    values = [program.attribute(owner, need.name)] if owner is not None else []
    if facts is not None and need.name in facts.parameters[: facts.required]:
        calls = (*callers(need.owner), *program.constructions.get(need.owner, ()))
        values = [passed(facts, need.name, call) for call in calls]
    for value in (each for each in values if each is not None):
        symbol = value.needs[0] if value.flags & v.SYMBOL and value.needs else None
        if value.cls == v.GENERATOR_VALUE.cls and not value.kinds & v.NONE:
            return True
        if symbol is not None and holds(symbol._replace(kind="generator")):
            return True
    return False
