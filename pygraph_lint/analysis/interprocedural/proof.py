"""Proof obligations: whether what one file assumes about another place holds."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import (
    CONDITIONS,
    KEYWORDS,
    PLACES,
    Need,
    annotated_numbers,
    call_site,
    on_host,
)
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.arguments_of_all_calls import (
    always_on_host,
    may_be_generator,
    some_passes,
)
from pygraph_lint.analysis.interprocedural.call_graph import returning
from pygraph_lint.analysis.interprocedural.feasible_paths import CallSources, FeasiblePaths
from pygraph_lint.analysis.interprocedural.forwarded_parameters import (
    ForwardedParameters,
    is_called_for_tensors,
)
from pygraph_lint.analysis.interprocedural.graph_breaks import (
    GraphBreaks,
    cached_function_breaks,
    has_own_operators,
)
from pygraph_lint.analysis.interprocedural.option_values import OptionValues
from pygraph_lint.analysis.loops.calls import OF_LOADER
from pygraph_lint.analysis.program.annotations import is_tensor_of_others
from pygraph_lint.analysis.program.argument_values import (
    argument_or_default,
    at_call,
    forwarded_parameter,
    is_unknown,
    may_be_other_method,
    passed,
)
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program

_MAX_PATH = 6
# Ways into a value: "0" is an element, ".x" an attribute, RESULT what calling it gives.
Path = tuple[str, ...]
RESULT = "()"


class Proof:
    """Says whether needs hold; an answer is worked out once.

    ``calls`` are those that count for what a parameter may be. ``returned`` says more of what
    functions give than their facts. Without ``options``, these may be anything.
    """

    def __init__(
        self,
        program: Program,
        calls: CallSources,
        returned: Callable[[str], Value | None] | None = None,
        options: OptionValues | None = None,
    ) -> None:
        self.program = program
        self.calls = calls
        self.options = options
        itself = weakref.proxy(self)  # not a cycle: what a check leaves behind is not collected
        self.paths = FeasiblePaths(program, calls, options, itself)
        self.graph_breaks = GraphBreaks(program, lambda needs: all(map(itself.holds, needs)))
        self.forwarded = ForwardedParameters(program)
        self._returned = returned
        self.asked: set[tuple[Need, bool]] = set()
        self._known: dict[Need, bool] = {}
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
        """Whether what a file's facts need holds. While it is being proven it does not, but for a
        predicate, which can give anything.
        """
        known = self._known.get(need)
        if known is None:
            self._known[need] = need.kind in (*CONDITIONS, "may")
            known = self._known[need] = _PROOFS[need.kind](self, need)
        return known

    def agrees_with(self, before: Proof) -> bool:
        """Whether all that was asked of another proof has the same answer here."""
        return all(self.holds(need) == answer for need, answer in before._known.items())

    def is_tensor(self, value: Value) -> bool:
        """Whether what may be a tensor is one."""
        return _is_tensor(self, value, ())

    def all_hold(self, needs: Iterable[Need]) -> bool:
        """Whether all of several assumptions hold."""
        return all(map(self.holds, needs))


def path_of(need: Need) -> Path:
    """The part of the value that a need names."""
    first, *steps = need.name.split("|")
    if need.kind in ("return", "type"):
        steps = [step for step in (first, *steps) if step]
    return tuple(steps)


def along(need: Need, path: Path) -> Need | None:
    """The same of a part of the value; None for a part that lies too deep."""
    deep = max(len(path_of(need)), len(path)) > _MAX_PATH
    if need.kind not in _OF_VALUE or deep:
        return None
    return need._replace(name="|".join((need.name, *path)))


# -- one function a kind ---------------------------------------------------------------------------


def _can_return(proof: Proof, need: Need) -> bool:
    facts = proof.program.functions.get(proof.program.symbol(need.owner) or "")
    if facts is None or facts.returns is None:
        return True
    const = facts.returns.const
    return const is None or bool(const) == (need.kind == "true")


def _is_open(proof: Proof, need: Need) -> bool:
    """Whether at some call of a function that a training loop makes nothing is known of an
    argument, or no call and no default says what it is; with no name: the project does not have
    the function.
    """
    facts = proof.program.functions.get(need.owner)
    if not need.name:
        return proof.of_loops and not returning(proof.program, need.owner)
    if not proof.of_loops or facts is None or need.name not in facts.parameters:
        return False
    calls = proof.paths.callers(need.owner)
    for call in calls:
        if is_unknown(facts, need.name, call):
            return True
        given = forwarded_parameter(passed(facts, need.name, call))
        if given is not None and proof.holds(Need("open", given.owner, given.name)):
            return True
    plain = dict(facts.defaults).get(need.name, v.UNKNOWN_VALUE).kinds & (v.NUMBER | v.TEXT)
    return not calls and not (plain and proof.options is not None)


def _some_passes(proof: Proof, need: Need) -> bool:
    return some_passes(proof.program.functions, proof.paths.callers, need, proof.is_tensor)


def _any_holds(proof: Proof, need: Need) -> bool:
    return any(map(proof.all_hold, need.choices))


def _is_on_host(proof: Proof, need: Need) -> bool:
    named = need.choices[0][0]
    if named.kind == "away":  # where a parameter is: some call has to pass a tensor of the host
        named = named._replace(kind="param")
    of_value = _OF_VALUE.get(named.kind)
    return of_value(proof, named, True) if of_value is not None else proof.holds(named)


def _is_called(proof: Proof, need: Need) -> bool:
    """Whether a region calls a function, or may: an object that the project makes may be a part."""
    made, owner = proof.program.constructions, need.owner.rpartition(".")[0]
    return bool(proof.paths.callers(need.owner)) or any(
        map(made.get, proof.program.constructors(owner))
    )


def _constructor_is_alone(proof: Proof, need: Need) -> bool:
    """Whether torch.compile compiles a constructor by itself, of a class or of one below it."""
    program, breaks = proof.program, proof.graph_breaks
    owner = program.class_named(need.owner)
    for each in (owner, *program.subclasses.get(owner, ())) if owner is not None else ():
        calls = proof.calls.called_from(program.method(each, "__init__") or "")
        if breaks.in_constructor(each, calls):
            return True
    return False


def _option_may_be_set(proof: Proof, need: Need) -> bool:
    options = proof.options
    return options is None or all(options.held(need.owner, each) for each in need.tests)


def _is_value(proof: Proof, need: Need) -> bool:
    found = _OF_VALUE[need.kind](proof, need, False)
    return found or _method_returns_tensor(proof, path_of(need))


# -- values that are tensors, or with ``host`` tensors on the host ------------------------------


def _parameter_is_tensor(proof: Proof, need: Need, host: bool) -> bool:
    facts = proof.program.functions.get(need.owner)
    if facts is None:
        return False
    parameter, only, path = need.name.partition("|")[0], need.kind == "given", path_of(need)
    call = proof.call_at(need.site)
    calls = proof.paths.callers(need.owner) if call is None else (call,)
    # Where a program's tensors are before it calls compiled code says nothing of a GPU.
    outside = proof.calls.outside(need.owner) if call is None and not host else ()
    on_host = bool(outside) and not calls and need.owner not in proof.calls.entered
    calls = (*calls, *outside)
    if not calls and facts.name.endswith(".__init__"):
        calls = proof.program.constructions.get(facts.name, ())
    if parameter not in facts.parameters:
        return _others_are_tensors(proof, facts, calls, need, host)
    unsaid = not calls
    given = argument_or_default if host else passed
    for call in calls:
        if proof.of_loops and may_be_other_method(facts, parameter, call):
            continue
        value = given(facts, parameter, call)
        unknown = value is None or value.kinds & v.UNKNOWN or (value.is_tensor and value.needs)
        unsaid = unsaid or bool(unknown)
        if value is None or (only and not _is_only_tensor(value)):
            continue
        if _is_tensor(proof, value, path, host):
            return True
    if host and not calls:
        value = dict(facts.defaults).get(parameter)
        return value is not None and _is_tensor(proof, value, path, host=True)
    # Of compiled code's arguments only tensors, and arrays that are traced as such, have an array's
    # methods.
    if not unsaid or only or host or proof.of_loops or on_host:
        return False
    if path == (RESULT,):
        return is_called_for_tensors(facts, parameter)
    element = all(step.lstrip("-").isdigit() for step in path)
    return element and proof.forwarded.is_tensor(facts, parameter)


def _others_are_tensors(
    proof: Proof, facts: FunctionFacts, calls: Sequence[Call], need: Need, host: bool
) -> bool:
    """Whether some call passes a tensor by a keyword that names no parameter, with ``**`` by any
    such keyword, or, with ``*``, only tensors behind the last parameter.
    """
    places = len(facts.parameters) - len(facts.named_only)
    parameter, path = need.name.partition("|")[0], path_of(need)
    if parameter == KEYWORDS:
        others = (each for call in calls for each in call.named if each[0] not in facts.parameters)
        return any(_is_tensor(proof, value, path, host) for _, value in others)
    for call in calls:
        given: Sequence[Value | None] = [dict(call.named).get(parameter)]
        if parameter == PLACES:
            given = call.positional[places:]
        if given and all(
            each is not None and _is_tensor(proof, each, path, host) for each in given
        ):
            return True
    return False


def _is_only_tensor(value: Value) -> bool:
    """Whether a value is nothing but a tensor, as far as its own conditions hold."""
    if value.kinds == v.TENSOR | v.NUMBER:  # passed on
        return annotated_numbers(value.needs)
    held = value.flags & v.SYMBOL and value.needs and value.needs[0].kind in ("attr", "return")
    return value.kinds == v.TENSOR or (value.kinds == v.TENSOR | v.UNKNOWN and bool(held))


def _returns_tensor(proof: Proof, need: Need, host: bool) -> bool:
    names, path = returning(proof.program, need.owner), path_of(need)
    if not names and not path and need.owner.rpartition(".")[2] in ops.OF_ARRAYS:
        call = proof.call_at(need.site)
        first = call.positional[0] if call is not None and call.positional else None
        return first is not None and _is_tensor(proof, first, (), host)
    return any(_one_returns_tensor(proof, name, path, need.site, host) for name in names)


def _attribute_is_tensor(proof: Proof, need: Need, host: bool) -> bool:
    owner = proof.program.class_named(need.owner)
    if owner is None:
        return False
    attribute, path = need.name.partition("|")[0], path_of(need)
    value = proof.program.attribute(owner, attribute)
    if value is not None:
        return _is_tensor(proof, value, path, host)
    method = proof.program.method(owner, attribute)
    if method is None:
        return False
    path = path[1:] if path[:1] == (RESULT,) else path
    return _one_returns_tensor(proof, method, path, host=host)


def _type_is_tensor(proof: Proof, need: Need, host: bool) -> bool:
    value, path = proof.program.types.get(proof.program.symbol(need.owner) or ""), path_of(need)
    if value is not None:  # a number or a tensor: only callers know
        return not value.kinds & v.NUMBER and _is_tensor(proof, value, path, host)
    if not path:
        return not host and is_tensor_of_others(need.owner, proof.program.modules)
    if not path[0].startswith("."):
        return False
    held = _held(need.owner, path)
    return proof.holds(on_host(held) if host else held)


_OF_VALUE: dict[str, Callable[[Proof, Need, bool], bool]] = {
    "param": _parameter_is_tensor,
    "given": _parameter_is_tensor,
    "return": _returns_tensor,
    "attr": _attribute_is_tensor,
    "type": _type_is_tensor,
}
_PROOFS: dict[str, Callable[[Proof, Need], bool]] = {
    **dict.fromkeys(_OF_VALUE, _is_value),
    "host": _is_on_host,
    "any": _any_holds,
    "not": lambda proof, need: not _any_holds(proof, need),
    "may": lambda proof, need: proof.paths.may_come_out(need, proof.call_at(need.site)),
    "set": _option_may_be_set,
    "module": lambda proof, need: proof.program.is_module(proof.program.symbol(need.owner)),
    "called": _is_called,
    "every": lambda proof, need: proof.options is None,
    **dict.fromkeys(("true", "false"), _can_return),
    "keeps": lambda proof, need: cached_function_breaks(proof.program, need.owner, proof.all_hold),
    "ends": lambda proof, need: (
        proof.graph_breaks.in_method_of_result(need.choices[0][0], need.name)
        if need.choices
        else proof.graph_breaks.in_method(need.owner, need.name)
    ),
    "alone": _constructor_is_alone,
    "operators": lambda proof, need: has_own_operators(proof.program, need.owner, need.name),
    "generator": lambda proof, need: may_be_generator(
        proof.program, proof.paths.callers, proof.holds, need
    ),
    "checks": lambda proof, need: (
        proof.program.checks_distributions and not proof.program.has_method(need.name)
    ),
    "open": _is_open,
    **dict.fromkeys(("array", "mask"), _some_passes),
    "away": lambda proof, need: (
        not _any_holds(proof, need)
        if need.choices
        else (proof.options is None and not proof.of_loops)
        or not always_on_host(proof.program.functions, proof.paths.callers, need)
    ),
    "presumed": lambda proof, need: proof.of_loops,  # of unknown origin: it is on the device
}


def _method_returns_tensor(proof: Proof, path: Path) -> bool:
    """Whether the last method that a path calls returns a tensor, going by its name alone."""
    for index in range(len(path) - 1, 0, -1):
        if path[index] == RESULT and path[index - 1].startswith("."):
            names = proof.program.methods_called(path[index - 1][1:])
            return any(_one_returns_tensor(proof, name, path[index + 1 :]) for name in names)
    return False


def _one_returns_tensor(
    proof: Proof, name: str, path: Path, site: str = "", host: bool = False
) -> bool:
    value = proof.returned(name)
    if value is not None and proof.call_at(site) is not None:
        value = at_call(value, name, site)
    return value is not None and _is_tensor(proof, value, path, host)


def _is_tensor(proof: Proof, value: Value, path: Path, host: bool = False) -> bool:
    """Whether the part of ``value`` that ``path`` leads to is a tensor; with ``host``: one
    on the host.
    """
    if not path:
        if host and proof.of_loops and value.flags & v.SYMBOL and len(value.needs) == 1:
            return proof.holds(on_host(value.needs[0]))  # handed on
        here = _is_host_tensor(proof, value) if host else value.is_tensor
        if proof.of_loops and not host and value.device == v.ON_HOST:
            return False
        return here and proof.all_hold(value.needs)
    if host and value.why == OF_LOADER.why:  # so are its parts
        return True
    if value.flags & v.SYMBOL and value.needs:
        further = along(value.needs[0], path)
        return further is not None and proof.holds(on_host(further) if host else further)
    step, rest = path[0], path[1:]
    if step == RESULT:
        return _result_is_tensor(proof, value, rest, host)
    if step.startswith(".") and value.keys is not None:
        entry = v.entries(value).get(step[1:])
        return entry is not None and _is_tensor(proof, entry, rest, host)
    if step.startswith("."):
        held = bool(value.kinds & v.INSTANCE and value.cls)
        return held and _held_is_tensor(proof, _held(value.cls, path), host)
    return _element_is_tensor(proof, value, step, rest, host)


def _held(cls: str, path: Path) -> Need:
    """That what an object of a class holds, by a path that begins with ``.attribute``, is one."""
    return Need("attr", cls, "|".join(path)[1:])


def _held_is_tensor(proof: Proof, held: Need, host: bool) -> bool:
    """The same of what an object holds; while that is being asked, it is not."""
    asked = (held, host)
    if asked in proof.asked:
        return False
    proof.asked.add(asked)
    known = _attribute_is_tensor(proof, held, host)
    proof.asked.discard(asked)
    return known


def _is_host_tensor(proof: Proof, value: Value) -> bool:
    """Whether a tensor is on the host: where it is made, or where it comes from."""
    if not value.is_tensor or value.device == v.ON_HOST or value.device_of is None:
        return value.is_tensor and value.device == v.ON_HOST
    return proof.holds(on_host(value.device_of))


def _element_is_tensor(proof: Proof, value: Value, step: str, rest: Path, host: bool) -> bool:
    if value.keys is not None and value.kinds & v.MAPPING:
        entries = {str(key): each for key, each in v.entries(value).items()}
        found = [entries[step]] if step in entries else entries.values() if step == "0" else ()
        return any(_is_tensor(proof, each, rest, host) for each in found)
    if value.items is not None:
        try:
            return _is_tensor(proof, value.items[int(step)], rest, host)
        except (ValueError, IndexError):
            return False
    if value.item is not None:
        return _is_tensor(proof, value.item, rest, host)
    if value.is_tensor and step.lstrip("-").isdigit():
        return _is_tensor(proof, value, rest, host)
    if value.kinds & v.INSTANCE and value.cls and step == "0":
        return _first_field_is_tensor(proof, value.cls, rest, host)
    return False


def _first_field_is_tensor(proof: Proof, cls: str, rest: Path, host: bool) -> bool:
    """``output[0]`` of a model output class is its first tensor field."""
    owner = proof.program.class_named(cls)
    if owner is None:
        return False
    fields = proof.program.classes[owner].attributes.values()
    first = next((value for value in fields if value.is_tensor), None)
    return first is not None and _is_tensor(proof, first, rest, host)


def _result_is_tensor(proof: Proof, value: Value, rest: Path, host: bool) -> bool:
    """Whether calling a value gives a tensor."""
    if value.flags & v.MODULE:
        return not host and (not rest or rest[0] in ("0", "1"))
    if value.kinds & v.INSTANCE and value.cls:
        owner = proof.program.class_named(value.cls)
        found = proof.program.called_method(owner) if owner is not None else None
        return found is not None and _one_returns_tensor(proof, found, rest, host=host)
    if value.kinds & v.CALLABLE and value.cls:
        names = returning(proof.program, value.cls)
        return any(_one_returns_tensor(proof, name, rest, host=host) for name in names)
    return False
