"""Feasible call paths: those on which tests of parameters come out as a line needs it. They are
looked for backwards, from the function with the line to a start of a region.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pygraph_lint.analysis.domain.events import CONDITIONS, Need
from pygraph_lint.analysis.domain.region import RegionKind
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.option_values import OptionValues
from pygraph_lint.analysis.program.argument_values import may_leave_out, may_pass
from pygraph_lint.analysis.program.facts import Call, FunctionFacts
from pygraph_lint.analysis.program.program import Program
from pygraph_lint.analysis.syntax.literal_tests import ParameterTest

_MAX_PLACES = 300  # that are looked at for one path
_MAX_CHOICES = 8  # of tests, one of which has to come out so


class CallSources(NamedTuple):
    """What may call the functions of a project.

    ``called_from`` are the calls, by function, each with the function that makes it; ``entered``
    has the functions that a region begins with: their arguments come from outside, by the calls
    that ``outside`` knows and others.
    """

    called_from: Callable[[str], Sequence[tuple[str, Call]]]
    entered: Mapping[str, RegionKind] = {}
    outside: Callable[[str], Sequence[Call]] = lambda _: ()


class Prover(Protocol):
    """Says what holds."""

    def holds(self, need: Need) -> bool:
        """Whether what a file's facts need holds."""

    @property
    def of_loops(self) -> bool:
        """Whether it is about training loops, where a tensor is what seems to be one."""

    def is_tensor(self, value: Value) -> bool:
        """Whether what may be a tensor is one."""


class _Place(NamedTuple):
    """A function, and tests of its parameters that have to come out so."""

    function: str
    tests: tuple[ParameterTest, ...]


CallPath = tuple[tuple[str, Call | None], ...]
"""Functions, each with the call that leads to it: none for the first one."""


class FeasiblePaths:
    """Finds call paths, for a ``proof``, which has them. ``options`` decides what options are;
    without it they may be anything, a call is made wherever it stands, and each test is asked for
    alone.
    """

    def __init__(
        self, program: Program, calls: CallSources, options: OptionValues | None, proof: Prover
    ) -> None:
        self.program = program
        self.calls = calls
        self.options = options
        self.proof = proof
        self._callers: dict[str, Sequence[Call]] = {}
        self._paths: dict[_Place, CallPath | None] = {}
        self._never: set[_Place] = set()
        self._excluded = 0  # calls that conditions exclude, so far

    def callers(self, function: str) -> Sequence[Call]:
        """The calls of a function that some path makes."""
        known = self._callers.get(function)
        if known is None:
            found = self.calls.called_from(function)
            known = self._callers[function] = [call for _, call in found]  # until that is known
            if self.options is not None:
                known = [call for caller, call in found if self._happens(caller, call)]
                self._callers[function] = known
        return known

    def _happens(self, caller: str, call: Call) -> bool:
        conditions = (need for need in call.needs if need.kind in CONDITIONS)
        return all(map(self.proof.holds, conditions)) and self.path(caller, call.needs) is not None

    def path(self, function: str, needs: Iterable[Need]) -> CallPath | None:
        """The shortest path to a line of a function that stands under some conditions; None where
        all paths exclude these, and empty where none is known.
        """
        found = (self._known_path(_Place(function, each)) for each in _tests_of(function, needs))
        return next((path for path in found if path is not None), None)

    def _known_path(self, place: _Place) -> CallPath | None:
        if place not in self._paths:
            self._paths[place] = ()  # while that is worked out
            self._paths[place] = self._path_to(place)
        return self._paths[place]

    def may_come_out(self, need: Need, call: Call | None) -> bool:
        """Whether some path lets tests of parameters come out so; with ``call`` one through it."""
        facts = self.program.functions.get(need.owner)
        if facts is None:
            return True
        calls = self.calls.called_from(need.owner)
        if call is not None:
            calls = ((need.site.rpartition("@")[0], call),)
        if self.options is None:
            begins = call is None and need.owner in self.calls.entered
            passing = (bool(self._asked(facts, need.tests, *each)) for each in calls)
            return begins or not calls or any(passing)
        if call is None:
            return self.path(need.owner, (need,)) is not None
        return self._path_to(_Place(need.owner, need.tests), calls) is not None

    def _path_to(
        self, place: _Place, calls: Sequence[tuple[str, Call]] | None = None
    ) -> CallPath | None:
        """The same, through one of ``calls`` if these are given."""
        excluded = self._excluded
        after: dict[_Place, tuple[_Place, Call] | None] = {place: None}
        queue = deque([place])
        while queue:
            now = queue.popleft()
            given = calls if now is place else None
            if given is None and self._may_begin(now):
                return _path(now, after)
            self._excluded += bool(now.tests)
            for before, call in self._before(now, given):
                if before not in after:
                    after[before] = now, call
                    queue.append(before)
            if len(after) > _MAX_PLACES:
                return ()
        if excluded == self._excluded:
            return ()  # functions that only call each other
        if calls is None:
            self._never.update(after)
        return None

    def _before(
        self, place: _Place, calls: Sequence[tuple[str, Call]] | None
    ) -> Iterator[tuple[_Place, Call]]:
        """The places from which a call leads to a place, with the calls."""
        facts = self.program.functions.get(place.function)
        for caller, call in self.calls.called_from(place.function) if calls is None else calls:
            asked = [()] if facts is None else self._asked(facts, place.tests, caller, call)
            found = [each for tests in asked if (each := _Place(caller, tests)) not in self._never]
            self._excluded += not found
            yield from ((before, call) for before in found)

    def _asked(
        self, facts: FunctionFacts, tests: tuple[ParameterTest, ...], caller: str, call: Call
    ) -> list[tuple[ParameterTest, ...]]:
        """What has to be of the caller's parameters, one of these; none where the call excludes
        the tests.
        """
        handed: tuple[ParameterTest, ...] = ()
        if self.options is not None and not all(
            self.proof.holds(need) for need in call.needs if need.kind in CONDITIONS
        ):
            return []

        def holds(need: Need) -> bool:
            nonlocal handed
            if self.options is None or need.kind != "may" or need.owner != caller:
                return self.proof.holds(need)
            handed += need.tests
            return True

        is_tensor = None if self.proof.of_loops else self.proof.is_tensor
        if not may_pass(facts, call, tests, is_tensor, holds):
            return []
        own = _tests_of(caller, call.needs) if self.options is not None else [()]
        return [tuple(dict.fromkeys((*each, *handed))) for each in own]

    def _may_begin(self, place: _Place) -> bool:
        """Whether tests of parameters may come out so where a region begins."""
        function, tests = place
        facts, calls = self.program.functions.get(function), self.calls.called_from(function)
        kind, options = self.calls.entered.get(function), self.options
        if facts is None or options is None or not tests:
            return kind is not None or not calls
        if kind is None:
            made = function.endswith(".__init__")
            return not calls and (not made or all(options.passed(function, each) for each in tests))
        if kind is not RegionKind.MODEL:
            return True
        outside = self.calls.outside(function)
        if not calls and not outside:
            return may_leave_out(facts, tests)
        return any(
            may_pass(facts, call, tests, self.proof.is_tensor, self.proof.holds) for call in outside
        )


def _tests_of(function: str, needs: Iterable[Need]) -> list[tuple[ParameterTest, ...]]:
    """The tests of a function's parameters among the conditions of a line or a call in it: all of
    one of these have to come out so.
    """
    found: list[tuple[ParameterTest, ...]] = [()]
    for need in needs:
        if need.kind == "may" and need.owner == function:
            found = [(*each, *need.tests) for each in found]
        elif need.kind == "any":
            choices = [tests for each in need.choices for tests in _tests_of(function, each)]
            if all(choices) and len(choices) * len(found) <= _MAX_CHOICES:
                found = [(*each, *tests) for each in found for tests in choices]
    return list(dict.fromkeys(tuple(dict.fromkeys(each)) for each in found))


def _path(start: _Place, after: dict[_Place, tuple[_Place, Call] | None]) -> CallPath:
    found: list[tuple[str, Call | None]] = [(start.function, None)]
    step = after[start]
    while step is not None:
        found.append((step[0].function, step[1]))
        step = after[step[0]]
    return tuple(found)
