"""Discharging obligations: whether what one file assumes about another place holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pygraph_lint.analysis import memoised, ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.call_graph import returning
from pygraph_lint.analysis.events import (
    KEYWORDS,
    PLACES,
    Need,
    annotated_numbers,
    call_site,
    on_host,
)
from pygraph_lint.analysis.exports import VALIDATES
from pygraph_lint.analysis.graph_ends import GraphEnds
from pygraph_lint.analysis.model import Call, FunctionFacts
from pygraph_lint.analysis.obligations import (
    RESULT,
    AnyOf,
    AttributeIsGenerator,
    AttributeIsTensor,
    BreaksGraph,
    CalledAtImport,
    CallMayPass,
    CanReturn,
    ChecksArguments,
    EndsGraph,
    IsModule,
    NoneOf,
    Obligation,
    OfValue,
    ParameterIsOpen,
    ParameterIsTensor,
    Path,
    Presumed,
    ReturnsTensor,
    TypeIsTensor,
)
from pygraph_lint.analysis.passed import (
    handed_on,
    is_of_another,
    is_unknown,
    may_pass,
    passed,
    passed_or_default,
)
from pygraph_lint.analysis.passed_on import PassedOn, computes
from pygraph_lint.analysis.program import Program
from pygraph_lint.analysis.values import Value


class Proof:
    """Discharges obligations; an answer is worked out once.

    ``callers`` are the calls, by function, that count for what a parameter may be; ``entered`` has
    the functions that a region begins with: their arguments come from outside, by the calls that
    ``outside`` knows and others. ``returned`` says more of what functions give than their facts.
    """

    def __init__(
        self,
        program: Program,
        callers: Callable[[str], Sequence[Call]],
        entered: Mapping[str, object] | None = None,
        returned: Callable[[str], Value | None] | None = None,
        outside: Callable[[str], Sequence[Call]] = lambda _: (),
    ) -> None:
        self.program = program
        self.callers = callers
        self.entered = entered if entered is not None else {}
        self.outside = outside
        self.graph_ends = GraphEnds(program)
        self.passed_on = PassedOn(program)
        self._returned = returned
        self.asked: set[AttributeIsTensor] = set()
        self._known: dict[Need, bool] = {}
        self._proven: dict[Obligation, bool] = {}
        self._sites: dict[str, Call | None] = {}

    @property
    def of_loops(self) -> bool:
        """Whether it is about training loops, whose functions may get arrays and numbers, too."""
        return self._returned is not None

    def returned(self, function: str) -> Value | None:
        """What a function of the project gives."""
        known = self._returned(function) if self._returned is not None else None
        if known is not None:
            return known
        facts = self.program.functions.get(function)
        return facts.returns if facts is not None else None

    def call_at(self, site: str) -> Call | None:
        """The call that a site names."""
        if site and site not in self._sites:
            name = site.rpartition("@")[0]
            function = self.program.functions.get(name)
            self._sites[site] = None
            if function is not None:
                line, calls = function.line, function.calls
                self._sites.update((call_site(name, line, call.span), call) for call in calls)
        return self._sites[site] if site else None

    def holds(self, need: Need) -> bool:
        """Whether what a file's facts need holds."""
        known = self._known.get(need)
        if known is None:
            known = self._known[need] = self.discharged(of_need(need))
        return known

    def all_hold(self, needs: Iterable[Need]) -> bool:
        """Whether all of several assumptions hold."""
        return all(map(self.holds, needs))

    def discharged(self, obligation: Obligation) -> bool:
        """Whether an obligation holds. While it is being proven it counts as open, and a predicate
        as one that can give anything.
        """
        known = self._proven.get(obligation)
        if known is None:
            self._proven[obligation] = isinstance(obligation, (CanReturn, CallMayPass))
            known = _DISCHARGE[type(obligation)](self, obligation)
            if not known and isinstance(obligation, OfValue) and not obligation.at_home:
                known = _method_returns_tensor(self, obligation.path)
            self._proven[obligation] = known
        return known


def of_need(need: Need) -> Obligation:
    """The obligation that a file's facts name by kind, owner and name."""
    first, *steps = need.name.split("|")
    path = tuple(steps)
    if need.kind in ("param", "given"):
        return ParameterIsTensor(path, need.owner, first, need.kind == "given", need.site)
    if need.kind == "return":
        return ReturnsTensor(tuple(filter(None, (first, *steps))), need.owner, need.site)
    if need.kind == "attr":
        return AttributeIsTensor(path, need.owner, first)
    if need.kind == "type":
        return TypeIsTensor(tuple(step for step in (first, *steps) if step), need.owner)
    if need.kind in ("true", "false"):
        return CanReturn(need.owner, need.kind == "true")
    if need.kind == "any":
        return AnyOf(tuple(tuple(map(of_need, needs)) for needs in need.choices))
    if need.kind == "not":
        return NoneOf(tuple(tuple(map(of_need, needs)) for needs in need.choices))
    if need.kind == "may":
        return CallMayPass(need.owner, need.tests, need.site)
    if need.kind == "asked":
        return CalledAtImport(need.owner, need.name)
    if need.kind == "generator":
        return AttributeIsGenerator(need.owner, need.name)
    if need.kind == "checks":
        return ChecksArguments()
    if need.kind == "ends":
        return EndsGraph(need.owner, need.name)
    if need.kind in ("presumed", "open"):
        return ParameterIsOpen(need.owner, need.name) if need.kind == "open" else Presumed()
    if need.kind == "host":
        named = of_need(need.choices[0][0])
        return replace(named, at_home=True) if isinstance(named, OfValue) else named
    return IsModule(need.owner) if need.kind == "module" else BreaksGraph(need.owner)


# -- one function a kind ---------------------------------------------------------------------------


def _is_module(proof: Proof, obligation: IsModule) -> bool:
    return proof.program.is_module(proof.program.symbol(obligation.cls))


def _can_return(proof: Proof, obligation: CanReturn) -> bool:
    facts = proof.program.functions.get(proof.program.symbol(obligation.function) or "")
    if facts is None or facts.returns is None:
        return True
    const = facts.returns.const
    return const is None or bool(const) == obligation.outcome


def _breaks_graph(proof: Proof, obligation: BreaksGraph) -> bool:
    return memoised.breaks_graph(proof.program, obligation.function, proof.all_hold)


def _checks_arguments(proof: Proof, obligation: ChecksArguments) -> bool:
    return VALIDATES not in proof.program.patched


def _presumed(proof: Proof, obligation: Presumed) -> bool:
    return proof.of_loops


def _parameter_is_open(proof: Proof, obligation: ParameterIsOpen) -> bool:
    facts = proof.program.functions.get(obligation.function)
    if not obligation.parameter:
        return proof.of_loops and not returning(proof.program, obligation.function)
    if not proof.of_loops or facts is None or obligation.parameter not in facts.parameters:
        return False
    calls = proof.callers(obligation.function)
    for call in calls:
        if is_unknown(facts, obligation.parameter, call):
            return True
        need = handed_on(passed(facts, obligation.parameter, call))
        if need is not None and proof.discharged(ParameterIsOpen(need.owner, need.name)):
            return True
    return not calls


def _ends_graph(proof: Proof, obligation: EndsGraph) -> bool:
    return proof.graph_ends.in_method(obligation.classes, obligation.method)


def _called_at_import(proof: Proof, obligation: CalledAtImport) -> bool:
    return memoised.called_at_import(proof.program, obligation.function, obligation.module)


def _parameter_is_tensor(proof: Proof, obligation: ParameterIsTensor) -> bool:
    facts = proof.program.functions.get(obligation.function)
    if facts is None:
        return False
    call = proof.call_at(obligation.site)
    calls = proof.callers(obligation.function) if call is None else (call,)
    # Where a program's tensors are before it calls compiled code says nothing of a GPU.
    asked = call is None and not obligation.at_home
    outside = proof.outside(obligation.function) if asked else ()
    on_host = bool(outside) and not calls and obligation.function not in proof.entered
    calls = (*calls, *outside)
    if not calls and facts.name.endswith(".__init__"):
        calls = proof.program.constructions.get(facts.name, ())
    if obligation.parameter == KEYWORDS:
        others = (each for call in calls for each in call.named if each[0] not in facts.parameters)
        path, at_home = obligation.path, obligation.at_home
        return any(_is_tensor(proof, value, path, at_home) for _, value in others)
    if obligation.parameter not in facts.parameters:
        return _others_are_tensors(proof, facts, calls, obligation)
    unsaid = not calls
    given = passed_or_default if obligation.at_home else passed
    for call in calls:
        if proof.of_loops and is_of_another(facts, obligation.parameter, call):
            continue
        value = given(facts, obligation.parameter, call)
        unsaid = unsaid or value is None or bool(value.kinds & v.UNKNOWN)
        if value is None or (obligation.only and not _is_only_tensor(value)):
            continue
        if _is_tensor(proof, value, obligation.path, obligation.at_home):
            return True
    if obligation.at_home and not calls:
        value = dict(facts.defaults).get(obligation.parameter)
        return value is not None and _is_tensor(proof, value, obligation.path, at_home=True)
    # Of compiled code's arguments only tensors, and arrays that are traced as such, have an array's
    # methods.
    if not unsaid or obligation.only or obligation.at_home or proof.of_loops or on_host:
        return False
    if obligation.path == (RESULT,):
        return computes(facts, obligation.parameter)
    return not obligation.path and proof.passed_on.is_tensor(facts, obligation.parameter)


def _others_are_tensors(
    proof: Proof, facts: FunctionFacts, calls: Sequence[Call], obligation: ParameterIsTensor
) -> bool:
    """Whether some call passes a tensor by a keyword that names no parameter, or, with ``*``, only
    tensors behind the last parameter.
    """
    places = len(facts.parameters) - len(facts.named_only)
    for call in calls:
        given: Sequence[Value | None] = [dict(call.named).get(obligation.parameter)]
        if obligation.parameter == PLACES:
            given = call.positional[places:]
        if given and all(
            value is not None and _is_tensor(proof, value, obligation.path, obligation.at_home)
            for value in given
        ):
            return True
    return False


def _is_only_tensor(value: Value) -> bool:
    """Whether a value is nothing but a tensor, as far as its own conditions hold."""
    if value.kinds == v.TENSOR | v.NUMBER:  # passed on
        return annotated_numbers(value.needs)
    held = value.flags & v.SYMBOL and value.needs and value.needs[0].kind in ("attr", "return")
    return value.kinds == v.TENSOR or (value.kinds == v.TENSOR | v.UNKNOWN and bool(held))


def _call_may_pass(proof: Proof, obligation: CallMayPass) -> bool:
    facts = proof.program.functions.get(obligation.function)
    call = proof.call_at(obligation.site)
    calls = proof.callers(obligation.function) if call is None else (call,)
    if facts is None or not calls or (call is None and obligation.function in proof.entered):
        return True

    def is_tensor(value: Value) -> bool:
        return _is_tensor(proof, value, ())

    return any(may_pass(facts, call, obligation.tests, is_tensor) for call in calls)


def _returns_tensor(proof: Proof, obligation: ReturnsTensor) -> bool:
    names = returning(proof.program, obligation.function)
    path, site, at_home = obligation.path, obligation.site, obligation.at_home
    if not names and not path and obligation.function.rpartition(".")[2] in ops.OF_ARRAYS:
        call = proof.call_at(site)
        first = call.positional[0] if call is not None and call.positional else None
        return first is not None and _is_tensor(proof, first, (), at_home)
    return any(_one_returns_tensor(proof, name, path, site, at_home) for name in names)


def _attribute_is_tensor(proof: Proof, obligation: AttributeIsTensor) -> bool:
    owner = proof.program.class_named(obligation.cls)
    if owner is None:
        return False
    value = proof.program.attribute(owner, obligation.attribute)
    if value is not None:
        return _is_tensor(proof, value, obligation.path, obligation.at_home)
    method = proof.program.method(owner, obligation.attribute)
    if method is None:
        return False
    path = obligation.path[1:] if obligation.path[:1] == (RESULT,) else obligation.path
    return _one_returns_tensor(proof, method, path, at_home=obligation.at_home)


def _attribute_is_generator(proof: Proof, obligation: AttributeIsGenerator) -> bool:
    owner = proof.program.class_named(obligation.cls)
    return owner is not None and (
        proof.program.attribute(owner, obligation.attribute) == v.GENERATOR_VALUE
    )


def _type_is_tensor(proof: Proof, obligation: TypeIsTensor) -> bool:
    value = proof.program.types.get(proof.program.symbol(obligation.name) or "")
    if value is not None:  # a number or a tensor: only callers know
        number = value.kinds & v.NUMBER
        return not number and _is_tensor(proof, value, obligation.path, obligation.at_home)
    step, rest = "".join(obligation.path[:1]), obligation.path[1:]
    if not step.startswith("."):
        return False
    return proof.discharged(
        AttributeIsTensor(rest, obligation.name, step[1:], at_home=obligation.at_home)
    )


def _one_of(proof: Proof, obligation: AnyOf) -> bool:
    return any(all(map(proof.discharged, choice)) for choice in obligation.choices)


def _none_of(proof: Proof, obligation: NoneOf) -> bool:
    return not any(all(map(proof.discharged, choice)) for choice in obligation.choices)


_DISCHARGE: dict[type[Obligation], Callable[[Proof, Any], bool]] = {
    AnyOf: _one_of,
    NoneOf: _none_of,
    CallMayPass: _call_may_pass,
    IsModule: _is_module,
    CanReturn: _can_return,
    BreaksGraph: _breaks_graph,
    ChecksArguments: _checks_arguments,
    Presumed: _presumed,
    ParameterIsOpen: _parameter_is_open,
    EndsGraph: _ends_graph,
    CalledAtImport: _called_at_import,
    ParameterIsTensor: _parameter_is_tensor,
    ReturnsTensor: _returns_tensor,
    AttributeIsTensor: _attribute_is_tensor,
    AttributeIsGenerator: _attribute_is_generator,
    TypeIsTensor: _type_is_tensor,
}


# -- values ----------------------------------------------------------------------------------------


def _method_returns_tensor(proof: Proof, path: Path) -> bool:
    """Whether the last method that a path calls returns a tensor, going by its name alone."""
    for index in range(len(path) - 1, 0, -1):
        if path[index] == RESULT and path[index - 1].startswith("."):
            names = proof.program.methods_called(path[index - 1][1:])
            return any(_one_returns_tensor(proof, name, path[index + 1 :]) for name in names)
    return False


def _one_returns_tensor(
    proof: Proof, name: str, path: Path, site: str = "", at_home: bool = False
) -> bool:
    value = proof.returned(name)
    if value is not None and proof.call_at(site) is not None:
        value = _at_call(value, name, site)
    return value is not None and _is_tensor(proof, value, path, at_home)


def _at_call(value: Value, function: str, site: str) -> Value:
    """What a function returns at one call: its parameters are what that call passes."""
    needs = tuple(_need_at_call(need, function, site) for need in value.needs)
    items, item = value.items, value.item
    if items is not None:
        items = tuple(_at_call(each, function, site) for each in items)
    if item is not None:
        item = _at_call(item, function, site)
    home = _need_at_call(value.home, function, site) if value.home is not None else None
    return value._replace(needs=needs, items=items, item=item, home=home)


def _need_at_call(need: Need, function: str, site: str) -> Need:
    choices = tuple(
        tuple(_need_at_call(each, function, site) for each in needs) for needs in need.choices
    )
    here = need.kind in ("param", "may") and need.owner == function
    return need._replace(choices=choices, site=site if here else need.site)


def _is_tensor(proof: Proof, value: Value, path: Path, at_home: bool = False) -> bool:
    """Whether the part of ``value`` that ``path`` leads to is a tensor; with ``at_home``: one
    on the host.
    """
    if not path:
        here = _is_at_home(proof, value) if at_home else value.is_tensor
        if proof.of_loops and value.device == v.ON_HOST:
            return False
        return here and proof.all_hold(value.needs)
    if value.flags & v.SYMBOL and value.needs:
        named = of_need(on_host(value.needs[0]) if at_home else value.needs[0])
        further = named.along(path) if isinstance(named, OfValue) else None
        return further is not None and proof.discharged(further)
    step, rest = path[0], path[1:]
    if step == RESULT:
        return _result_is_tensor(proof, value, rest, at_home)
    if step.startswith(".") and value.keys is not None:
        entry = v.entries(value).get(step[1:])
        return entry is not None and _is_tensor(proof, entry, rest, at_home)
    if step.startswith("."):
        held = bool(value.kinds & v.INSTANCE and value.cls)
        named = AttributeIsTensor(rest, value.cls, step[1:], at_home=at_home)
        return held and _held_is_tensor(proof, named)
    return _element_is_tensor(proof, value, step, rest, at_home)


def _held_is_tensor(proof: Proof, obligation: AttributeIsTensor) -> bool:
    """The same of what an object holds; while that is being asked, it is not."""
    if obligation in proof.asked:
        return False
    proof.asked.add(obligation)
    known = _attribute_is_tensor(proof, obligation)
    proof.asked.discard(obligation)
    return known


def _is_at_home(proof: Proof, value: Value) -> bool:
    """Whether a tensor is on the host: where it is made, or where it comes from."""
    if not value.is_tensor or value.device == v.ON_HOST or value.home is None:
        return value.is_tensor and value.device == v.ON_HOST
    return proof.holds(on_host(value.home))


def _element_is_tensor(proof: Proof, value: Value, step: str, rest: Path, at_home: bool) -> bool:
    if value.keys is not None and value.kinds & v.MAPPING:
        held = {str(key): each for key, each in v.entries(value).items()}.get(step)
        return held is not None and _is_tensor(proof, held, rest, at_home)
    if value.items is not None:
        try:
            return _is_tensor(proof, value.items[int(step)], rest, at_home)
        except (ValueError, IndexError):
            return False
    if value.item is not None:
        return _is_tensor(proof, value.item, rest, at_home)
    if value.is_tensor and step.lstrip("-").isdigit():
        return _is_tensor(proof, value, rest, at_home)
    if value.kinds & v.INSTANCE and value.cls and step == "0":
        return _first_field_is_tensor(proof, value.cls, rest, at_home)
    return False


def _first_field_is_tensor(proof: Proof, cls: str, rest: Path, at_home: bool) -> bool:
    """``output[0]`` of a model output class is its first tensor field."""
    owner = proof.program.class_named(cls)
    if owner is None:
        return False
    fields = proof.program.classes[owner].attributes.values()
    first = next((value for value in fields if value.is_tensor), None)
    return first is not None and _is_tensor(proof, first, rest, at_home)


def _result_is_tensor(proof: Proof, value: Value, rest: Path, at_home: bool) -> bool:
    """Whether calling a value gives a tensor."""
    if value.flags & v.MODULE:
        return not at_home and (not rest or rest[0] in ("0", "1"))
    if value.kinds & v.INSTANCE and value.cls:
        owner = proof.program.class_named(value.cls)
        found = proof.program.called_method(owner) if owner is not None else None
        return found is not None and _one_returns_tensor(proof, found, rest, at_home=at_home)
    if value.kinds & v.CALLABLE and value.cls:
        names = returning(proof.program, value.cls)
        return any(_one_returns_tensor(proof, name, rest, at_home=at_home) for name in names)
    return False
