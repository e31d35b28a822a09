"""Which functions of the project a call may reach."""

from __future__ import annotations

from collections.abc import Sequence

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.argument_values import may_fill, passed
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program


def targets(program: Program, call: Call) -> Sequence[str]:
    """The project functions a call may reach."""
    if call.how == "by name":
        return _filled(program, program.methods_called(call.name, call), call)
    key = call[:3]
    known = program.targets.get(key)
    if known is None:
        known = program.targets[key] = _targets(program, call)
    if call.how in ("unique", "result") and not known:
        found = program.methods_called(call.name.rpartition("|")[2], call)
        return _filled(program, found, call) if len(found) == 1 else ()
    return known


def _filled(program: Program, found: Sequence[str], call: Call) -> Sequence[str]:
    """Those of some functions for whose parameters without a default a call has arguments."""
    return [each for each in found if may_fill(call, program.functions[each])]


def edges(program: Program, function: FunctionFacts) -> Sequence[tuple[Call, Sequence[str]]]:
    """The calls of a function that may reach functions of the project, with these."""
    known = program.edges.get(function.name)
    if known is None or known[0] is not function:
        found = [(call, targets(program, call)) for call in function.calls]
        known = (function, [(call, reached) for call, reached in found if reached])
        program.edges[function.name] = known
    return known[1]


def _targets(program: Program, call: Call) -> Sequence[str]:
    """The same, by kind, target and name of a call alone."""
    if "," in call.target and call.how != "result":
        each = (call._replace(target=target) for target in call.target.split(","))
        return list(dict.fromkeys(found for one in each for found in _targets(program, one)))
    if call.how in ("function", "mention"):
        return _of_function(program, call)
    if call.how == "super":
        found = program.method(call.target, call.name, 1)
        return [found] if found is not None else []
    if call.how == "unique":
        return []
    if call.how == "hook":
        return program.methods_by_name.get(call.name, [])
    if call.how == "result":
        return _of_results(program, call.target, call.name)
    if call.how == "given":
        return _given(program, call.target, call.name)
    owner = program.class_named(call.target)
    if owner is None:
        return []
    if call.how == "instance":
        return _of_instance(program, owner)
    if call.how == "attribute":
        name, _, rest = call.name.partition("|")
        held = program.attribute(owner, name)
        if held is None and not rest:  # a bound method
            return _of_method(program, owner, name)
        return _of_held(program, held)
    if call.how == "object":
        return _of_object(program, owner, call.name)
    return _of_method(program, owner, call.name)


def returning(program: Program, name: str) -> list[str]:
    """The functions whose result a qualified name, or several between commas, stands for.
    ``super:Class.method`` is the next method behind ``Class``.
    """
    if name.startswith("super:"):
        holder, _, method = name[6:].rpartition(".")
        found = program.method(holder, method, 1)
        return [found] if found is not None else []
    if "," in name:
        return [target for each in name.split(",") for target in returning(program, each)]
    named = program.functions_named(name)
    if not named:
        holder, _, method = name.rpartition(".")
        owner = program.class_named(holder)
        found = program.method(owner, method) if owner is not None else None
        if found is None and owner is not None and method == "forward":
            found = program.called_method(owner)
        named = [found] if found is not None else []
    return [each for function in named for each in (function, *_overrides(program, function))]


def _overrides(program: Program, function: str) -> list[str]:
    """What subclasses have in place of an abstract method: one that never returns."""
    facts = program.functions[function]
    if not facts.owner or facts.returns is not None:
        return []
    name = function.rpartition(".")[2]
    below = (program.classes[each].methods.get(name) for each in program.subclasses[facts.owner])
    return [each for each in below if each is not None]


def _of_results(
    program: Program, function: str, name: str, asked: frozenset[str] = frozenset()
) -> list[str]:
    """A method of what functions give; ``name`` is ``place|method`` for an element of a tuple.
    ``asked`` are functions that give what this one gives.
    """
    if function in asked:
        return []
    place, _, method = name.rpartition("|")
    found = []
    for each in returning(program, function):
        value = program.functions[each].returns
        if value is not None and place:
            items = value.items or ()
            value = items[int(place)] if int(place) < len(items) else None
        if not method:
            found += _of_held(program, value, asked | {function})
        elif value is not None and value.kinds & v.INSTANCE:
            owners = [program.class_named(cls) for cls in value.cls.split(",")]
            for owner in owners:
                found += _of_method(program, owner, method) if owner is not None else []
    return list(dict.fromkeys(found))


def _of_instance(program: Program, owner: str) -> list[str]:
    found = program.called_method(owner)
    return _of_object(program, owner, found.rpartition(".")[2]) if found is not None else []


def _of_method(program: Program, owner: str, name: str) -> list[str]:
    """A method, and what overrides it below."""
    found = program.method(owner, name)
    reached = [found] if found is not None else []
    for subclass in program.subclasses.get(owner, ()):
        override = program.classes[subclass].methods.get(name)
        if override is not None:
            reached.append(override)
    return reached or _of_held(program, program.attribute(owner, name))


def _of_object(program: Program, owner: str, name: str) -> list[str]:
    """A method of an object of a class; what overrides it where it does nothing itself."""
    found = program.method(owner, name)
    facts = program.functions.get(found) if found is not None else None
    if facts is None or not (facts.calls or facts.events or facts.returns is not None):
        return _of_method(program, owner, name)
    return [facts.name]


def _of_held(
    program: Program, value: Value | None, asked: frozenset[str] = frozenset()
) -> list[str]:
    """What calling the value of an attribute, or of an argument, reaches."""
    if value is not None and value.flags & v.SYMBOL and value.needs[0].kind in ("return", "param"):
        need = value.needs[0]
        if need.kind == "param":
            return _given(program, need.owner, need.name, asked)
        return [] if need.name else _of_results(program, need.owner, "", asked)
    if value is None or not value.cls or value.flags & v.MODULE:
        return []
    if value.kinds & v.CALLABLE:
        names = value.cls.split(",")
        held = (program.functions_named(each) or program.constructors(each) for each in names)
        return [target for found in held for target in found]
    reached = []
    for found in map(program.symbol, value.cls.split(",")):
        if found in program.classes and value.kinds & v.INSTANCE:
            reached += _of_instance(program, found)
    return reached


def _given(
    program: Program, function: str, parameter: str, asked: frozenset[str] = frozenset()
) -> list[str]:
    """What calling a parameter reaches: functions and objects that calls pass for it. ``asked`` is
    what they are passed on from.
    """
    place = f"{function}|{parameter}"
    facts = program.functions.get(function)
    if place in asked or facts is None or parameter not in facts.parameters:
        return []
    found: list[str] = []
    for call in _passing(program, function):
        value = passed(facts, parameter, call)
        if value is not None and _reaches(program, call, facts):
            found += _of_held(program, value, asked | {place})
    return list(dict.fromkeys(found))


def _reaches(program: Program, call: Call, function: FunctionFacts) -> bool:
    """Whether a call is one of a function by its name, or by that of its class: whatever else it
    may reach may depend on what calls pass.
    """
    if call.how in ("function", "super"):
        return function.name in targets(program, call)
    name = function.name.rpartition(".")[2]
    named = name in ("forward", "__call__") if call.how == "instance" else name == call.name
    if not named or call.how not in ("method", "object", "instance"):
        return False
    named_classes = map(program.class_named, call.target.split(","))
    owners = [owner for owner in named_classes if owner is not None]
    below = (each for owner in owners for each in program.subclasses.get(owner, ()))
    return any(program.method(each, name) == function.name for each in (*owners, *below))


def _passing(program: Program, function: str) -> list[Call]:
    """The calls that pass what may be called, by the names that a function may be called by."""
    owner, _, word = function.rpartition(".")
    words = [word, "forward"] if word == "__call__" else [word]
    if word == "__init__":
        words += [each.rpartition(".")[2] for each in (owner, *program.subclasses.get(owner, ()))]
    return [call for each in words for call in program.passing.get(each, ())]


def _of_function(program: Program, call: Call) -> list[str]:
    named = program.functions_named(call.target)
    if named:
        return named if call.how == "mention" else named + program.constructors(call.target)
    if program.symbol(call.target) is not None:
        return [] if call.how == "mention" else program.constructors(call.target)
    owner, _, name = call.target.rpartition(".")
    holder = program.class_named(owner)
    if holder is None:
        return []
    method = program.method(holder, "forward" if name == "apply" else name)
    return [method] if method is not None else []
