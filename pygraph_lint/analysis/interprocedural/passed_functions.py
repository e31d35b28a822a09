"""Functions that are passed as arguments: what calling a parameter may reach."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.program.argument_values import passed
from pygraph_lint.analysis.program.program import Program


class PassedFunctions:
    """The functions of the project that its calls pass for parameters."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def functions(self, function: str, parameter: str) -> list[str]:
        """What a parameter of a function may be, of all functions of the project."""
        return self._found.get((function, parameter), [])

    def names(self, functions: frozenset[str]) -> set[str]:
        """The names of parameters for which one of some functions is passed."""
        found = self._found.items()
        return {name for (_, name), given in found if not functions.isdisjoint(given)}

    @cached_property
    def _found(self) -> dict[tuple[str, str], list[str]]:
        """The functions that are passed, by function and parameter."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        functions = self._program.functions
        calls = [call for facts in functions.values() for call in facts.calls]
        for call in calls:
            given = (*call.positional, *(value for _, value in call.named))
            if call.how == "mention" or not any(map(_functions, given)):
                continue
            for facts in map(functions.__getitem__, targets(self._program, call)):
                for name in facts.parameters:
                    value = passed(facts, name, call)
                    for each in _functions(value):
                        found[facts.name, name] += self._program.functions_named(each)
        return found


def _functions(value: Value | None) -> list[str]:
    """The names of the functions that a value may be."""
    named = value is not None and value.kinds & v.CALLABLE and value.cls
    return named.split(",") if named else []
