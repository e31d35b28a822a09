"""Calls in code outside of regions, by what they may call.

To find out what a call leads to may need files that were not read. So only the words of calls are
looked at, until it is asked for a function that has one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program

CALLING = ("function", "method", "object", "instance", "result")  # calls of what is known
_MAKES = ("__init__", "__post_init__")


class CallsOutsideRegions:
    """The calls of some functions."""

    def __init__(self, program: Program, functions: Iterable[FunctionFacts]) -> None:
        self._program = program
        self._calls: list[Call] = []
        self._by_word: dict[str, list[int]] = defaultdict(list)
        self._reached: dict[str, dict[str, list[int]]] = {}
        for call in (call for each in functions for call in each.calls if call.how in CALLING):
            for word in set(_words(call)):
                self._by_word[word].append(len(self._calls))
            self._calls.append(call)
        self._aliases: dict[str, set[str]] = defaultdict(set)
        for module in program.modules.values():
            for name, target in module.bindings.items():
                self._aliases[_last(target)].add(_last(name))

    def of(self, function: str) -> Iterator[tuple[Call, Sequence[str]]]:
        """Those that may reach a function, with all that they may reach, in order."""
        words = set(self._words_for(function))
        words |= {alias for word in words for alias in self._aliases.get(word, ())}
        for place in sorted({n for word in words for n in self._reaching(word).get(function, ())}):
            yield self._calls[place], targets(self._program, self._calls[place])

    def _reaching(self, word: str) -> Mapping[str, Sequence[int]]:
        """The calls that have a word, by the functions that they may reach."""
        known = self._reached.get(word)
        if known is None:
            known = self._reached[word] = defaultdict(list)
            for place in self._by_word.get(word, ()):
                for function in targets(self._program, self._calls[place]):
                    known[function].append(place)
        return known

    def _words_for(self, function: str) -> Iterator[str]:
        name, facts = _last(function), self._program.functions[function]
        yield from ("", name)
        if facts.owner:
            yield _last(facts.owner)
            yield from map(_last, self._program.subclasses.get(facts.owner, ()))
        if name == "forward":
            yield "apply"  # of an autograd Function
        if name in _MAKES:
            yield from map(_last, self._program.groups)


def _words(call: Call) -> Iterator[str]:
    """The names of what a call calls, as far as it says them; "" for one that has none."""
    if call.how == "result":
        yield call.name.rpartition("|")[2]
        return
    yield from map(_last, call.target.split(","))
    if call.name:
        yield call.name


def _last(name: str) -> str:
    return name.rpartition(".")[2]
