"""Functions that are passed as arguments: by which names they are called then."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.program.argument_values import passed
from pygraph_lint.analysis.program.facts import Call
from pygraph_lint.analysis.program.program import Program


def parameters_given(program: Program, functions: frozenset[str]) -> set[str]:
    """The names of parameters for which one of some functions is passed."""
    words = set(map(_last, functions))  # what others stand for may need files that are not read
    calls = chain.from_iterable(program.passing.values())
    fitting = (each for each in calls if not words.isdisjoint(map(_last, _given(each))))
    return {
        name
        for call in fitting
        for name, found in _passed(program, call)
        if not functions.isdisjoint(program.functions_named(found))
    }


def _passed(program: Program, call: Call) -> Iterator[tuple[str, str]]:
    """The functions that a call passes, each with the name of the parameter."""
    for facts in map(program.functions.__getitem__, targets(program, call)):
        for name in facts.parameters:
            for each in _functions(passed(facts, name, call)):
                yield name, each


def _given(call: Call) -> list[str]:
    """The names of the functions that a call passes."""
    given = (*call.positional, *(value for _, value in call.named))
    return [each for value in given for each in _functions(value)]


def _functions(value: Value | None) -> list[str]:
    """The names of the functions that a value may be."""
    return value.cls.split(",") if value and value.kinds & v.CALLABLE and value.cls else []


def _last(name: str) -> str:
    return name.rpartition(".")[2]
