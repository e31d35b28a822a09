"""Functions that are passed as arguments: what calling a parameter, or an attribute that keeps one,
may reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.program.argument_values import passed
from pygraph_lint.analysis.program.facts import Call
from pygraph_lint.analysis.program.program import Program


class FunctionArguments:
    """The functions of the project that its calls pass."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._known: dict[tuple[str, str], Sequence[str]] = {}

    def functions(self, function: str, parameter: str) -> Sequence[str]:
        """What a parameter of a function may be, of all functions of the project."""
        key = (function, parameter)
        if key not in self._known:
            self._known[key] = ()  # of a function that passes it on to itself
            calls = self._calls.get(_last(function), ())
            reaching = (call for call in calls if function in targets(self._program, call))
            self._known[key] = self._given(function, parameter, reaching)
        return self._known[key]

    def names(self, functions: frozenset[str]) -> set[str]:
        """The names of parameters for which one of some functions is passed."""
        found: set[str] = set()
        # To find out what other names stand for may need files that were not read.
        words = {_last(name) for name in (*functions, *self._program.groups)}
        for call in {id(each): each for calls in self._calls.values() for each in calls}.values():
            given = [self._is(each, functions, words) for each in call.positional]
            places = [place for place, fits in enumerate(given) if fits]
            found.update(name for name, each in call.named if self._is(each, functions, words))
            for target in targets(self._program, call) if places else ():
                parameters = self._program.functions[target].parameters
                found.update(parameters[place] for place in places if place < len(parameters))
        return found

    def _is(self, value: Value | None, functions: frozenset[str], words: set[str]) -> bool:
        if value is None or not _is_function(value):
            return False
        fitting = [name for name in value.cls.split(",") if _last(name) in words]
        return any(not functions.isdisjoint(self._program.functions_named(n)) for n in fitting)

    def _given(self, function: str, parameter: str, calls: Iterable[Call]) -> Sequence[str]:
        facts = self._program.functions.get(function)
        if facts is None or parameter not in facts.parameters:
            return ()
        values = [passed(facts, parameter, call) for call in calls]
        found = (each for value in values if _is_function(value) for each in self._named(value))
        return tuple(dict.fromkeys(found))

    def _named(self, value: Value | None) -> Iterable[str]:
        for name in value.cls.split(",") if value is not None else ():
            yield from self._program.functions_named(name)

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        """The calls that pass a function, by the last part of what they call."""
        found: dict[str, list[Call]] = defaultdict(list)
        for facts in self._program.functions.values():
            for call in facts.calls:
                given = (*call.positional, *(value for _, value in call.named))
                if call.how != "mention" and any(map(_is_function, given)):
                    found[call.name or _last(call.target)].append(call)
        return found


def _is_function(value: Value | None) -> bool:
    return value is not None and bool(value.kinds & v.CALLABLE and value.cls)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
