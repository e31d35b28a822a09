"""Functions of a project that break the graph, whoever calls them, and cached functions that do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import CONDITIONS, Event, Need
from pygraph_lint.analysis.interprocedural.call_graph import returning, targets
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program

# What breaks the graph on every version, where the values are what they are believed to be.
BREAKING_EVENTS = frozenset(
    """
        sync.item sync.number sync.bool sync.tolist sync.math sync.equal
        branch.if branch.ternary branch.while branch.raise branch.loop branch.random-skip
        branch.finite-guard shape.nonzero shape.mask-read shape.unique shape.bincount
        shape.repeat-interleave shape.from-value effect.log effect.lock effect.rnn
    """.split()
)
BREAKING_CALLS = ("logging.", "warnings.", "print", "time.", "open", "torch.autograd.grad")
# The same of cached functions: what they compute depends on no argument.
_EVENTS_IN_CACHED = ("effect.log", "effect.lock")
_CALLS_IN_CACHED = ("logging.", "warnings.", "builtins.print", "print")
UNSURE = ("mention", "by name", "hook")  # what such a call reaches is a guess

_UNCERTAIN = (*CONDITIONS, "may")  # whether a line runs, not what a value is
# Bases whose objects have the operators of their class.
_PLAIN_BASES = ("object", "builtins.object", "abc.ABC", "typing.Generic", "torch.nn.Module")
_MADE_OBJECT = "effect.made-object"

# A function, and the class of the object whose method it is.
_Place = tuple[str, str]


class GraphBreaks:
    """Whether the graph ends in a method of an object. Each answer is worked out once.

    ``all_hold`` says whether what events need holds.
    """

    def __init__(self, program: Program, all_hold: Callable[[Iterable[Need]], bool]) -> None:
        self._program = program
        self._all_hold = all_hold
        self._known: dict[_Place, bool] = {}

    def in_method(self, classes: str, method: str) -> bool:
        """Whether the graph ends in a method of one of some classes, or in what it calls."""
        return any(self._in_method(cls, method) for cls in classes.split(","))

    def in_method_of_result(self, result: Need, method: str) -> bool:
        """The same of an object that a function makes, or that is made of a class it gives."""
        return any(self._in_method(cls, method) for cls in self._classes_made(result))

    def in_constructor(self, cls: str, calls: Sequence[tuple[str, Call]]) -> bool:
        """Whether the graph ends where an object is made by ``calls``, each with the function
        around it: in the constructor, or all of that function is left uncompiled.
        """
        ends = bool(calls) and self._in_method(cls, "__init__")
        made_here = (caller for caller, call in calls if call.how == "function")
        events = (event for each in made_here for event in self._program.functions[each].events)
        return ends or any(e.kind == _MADE_OBJECT and self._all_hold(e.needs) for e in events)

    def _classes_made(self, result: Need) -> Iterator[str]:
        """The classes of what a need names: the result of a function, or that of calling it."""
        program, calls = self._program, [step for step in result.name.split("|") if step]
        table = program.symbol(result.owner)
        if not calls and table in program.groups:
            yield from program.members(table)
        for function in returning(program, result.owner):
            value = program.functions[function].returns
            if value is None:
                continue
            held = bool(calls) and value.kinds & v.CALLABLE
            if held or (not calls and value.kinds & v.INSTANCE and value.flags & v.MADE):
                yield from v.classes(value)

    def _in_method(self, cls: str, method: str) -> bool:
        named = self._program.symbol(cls)
        owners = self._program.members(named) if named in self._program.groups else [named]
        owners = [each for each in owners if each in self._program.classes]
        places = [(self._program.method(each, method), each) for each in owners if each]
        return any(self._in_any((found, owner)) for found, owner in places if found is not None)

    def _in_any(self, start: _Place) -> bool:
        """Whether the graph ends somewhere among what is reached from ``start``."""
        if start in self._known:
            return self._known[start]
        seen, front = {start}, [start]
        while front:
            place = front.pop()
            facts = self._program.functions[place[0]]
            if self._known.get(place) or facts.disabled or any(map(self._breaks, facts.events)):
                self._known[start] = True
                return True
            if facts.ends_region or place in self._known:
                continue
            new = [each for each in self._called(place, facts) if each not in seen]
            seen.update(new)
            front += new
        self._known.update(dict.fromkeys(seen, False))
        return False

    def _breaks(self, event: Event) -> bool:
        named = event.kind == "call" and event.subject.startswith(BREAKING_CALLS)
        if not named and event.kind not in BREAKING_EVENTS:
            return False
        # It breaks for a host tensor, too.
        needs = [need for need in event.needs if need.kind != "away"]
        return not any(need.kind in _UNCERTAIN for need in needs) and self._all_hold(needs)

    def _called(self, place: _Place, facts: FunctionFacts) -> Iterator[_Place]:
        for call in facts.calls:
            if call.how in UNSURE or call.needs:
                continue
            own = self._of_same_object(place[1], call)
            if own is not None:
                yield own, place[1]
                continue
            for target in targets(self._program, call):
                yield target, self._program.functions[target].owner

    def _of_same_object(self, cls: str, call: Call) -> str | None:
        """The method that a call of the object's own method runs: its class says which."""
        if call.how != "method" or not cls:
            return None
        lineage = self._program.lineage(cls)
        return self._program.method(cls, call.name) if call.target in lineage else None


def has_own_operators(program: Program, classes: str, method: str) -> bool:
    """Whether objects of some classes have no operators of a tensor, or of Python's own classes;
    with ``method``: and this one.
    """
    owners = [program.class_named(each) for each in classes.split(",")]
    for owner in owners:
        if owner is None or program.method(owner, "__torch_function__") is not None:
            return False
        if method and program.method(owner, method) is None:
            return False
        bases = (base for each in program.lineage(owner) for base in program.classes[each].bases)
        if not all(base in _PLAIN_BASES or program.class_named(base) for base in bases):
            return False
    return True


def cached_function_breaks(
    program: Program, name: str, all_hold: Callable[[Iterable[Need]], bool]
) -> bool:
    """Whether a function without parameters is cached, and breaks the graph on each call:
    torch.compile ignores the cache, and traces it again.
    """
    start = program.symbol(name) or ""
    facts = program.functions.get(start)
    if facts is None or not facts.is_cached_without_parameters:
        return False
    seen, front = {start}, [start]
    while front:
        here = program.functions[front.pop()]
        if any(all_hold(needs) for needs in _breaking(here)):
            return True
        for call in here.calls:
            new = [target for target in targets(program, call) if target not in seen]
            seen.update(new)
            front += [target for target in new if not program.functions[target].ends_region]
    return False


def _breaking(facts: FunctionFacts) -> Iterator[tuple[Need, ...]]:
    """What each event of a function that breaks the graph needs."""
    for event in facts.events:
        named = event.kind == "call" and event.subject.startswith(_CALLS_IN_CACHED)
        if event.kind in _EVENTS_IN_CACHED or named:
            yield event.needs
