"""Functions that are passed as arguments: what calling a parameter may reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.program.argument_values import passed
from pygraph_lint.analysis.program.facts import Call
from pygraph_lint.analysis.program.program import Program


class PassedFunctions:
    """The functions of the project that its calls pass for parameters."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def functions(self, function: str, parameter: str) -> list[str]:
        """What a parameter of a function may be, of all functions of the project."""
        calls = self._calls.get(_last(function.removesuffix(".__init__")), ())
        place = (function, parameter)
        return [found for target, name, found in self._passed(calls) if (target, name) == place]

    def names(self, functions: frozenset[str]) -> set[str]:
        """The names of parameters for which one of some functions is passed."""
        words = set(map(_last, functions))  # what others stand for may need files that are not read
        calls = (each for calls in self._calls.values() for each in calls)
        fitting = (each for each in calls if not words.isdisjoint(map(_last, _given(each))))
        return {name for _, name, found in self._passed(fitting) if found in functions}

    def _passed(self, calls: Iterable[Call]) -> Iterator[tuple[str, str, str]]:
        """Which functions calls pass: for which parameter of which function."""
        for call in calls:
            for facts in map(self._program.functions.__getitem__, targets(self._program, call)):
                for name in facts.parameters:
                    for each in _functions(passed(facts, name, call)):
                        for found in self._program.functions_named(each):
                            yield facts.name, name, found

    @cached_property
    def _calls(self) -> dict[str, list[Call]]:
        """The calls that pass a function, by the last part of what they call."""
        found: dict[str, list[Call]] = defaultdict(list)
        for facts in self._program.functions.values():
            for call in facts.calls:
                if call.how != "mention" and _given(call):
                    found[call.name or _last(call.target)].append(call)
        return found


def _given(call: Call) -> list[str]:
    """The names of the functions that a call passes."""
    given = (*call.positional, *(value for _, value in call.named))
    return [each for value in given for each in _functions(value)]


def _functions(value: Value | None) -> list[str]:
    """The names of the functions that a value may be."""
    return value.cls.split(",") if value and value.kinds & v.CALLABLE and value.cls else []


def _last(name: str) -> str:
    return name.rpartition(".")[2]
