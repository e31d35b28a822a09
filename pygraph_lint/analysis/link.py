"""The project as a whole: the facts of all files joined, regions found, needs proven."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from pygraph_lint.analysis.domain.events import CONDITIONS, Event, Need
from pygraph_lint.analysis.domain.region import Region
from pygraph_lint.analysis.interprocedural.feasible_paths import CallPath, CallSources
from pygraph_lint.analysis.interprocedural.option_values import OptionValues
from pygraph_lint.analysis.interprocedural.proof import Proof
from pygraph_lint.analysis.program.facts import Call, FunctionFacts, ModuleFacts
from pygraph_lint.analysis.program.program import Program
from pygraph_lint.analysis.program.unanalysed import EVERYTHING_ANALYSED, UnanalysedModules
from pygraph_lint.analysis.queries.interface import ProjectView
from pygraph_lint.analysis.regions.compiled import (
    DEFAULT_REGIONS,
    Reached,
    RegionOptions,
    compiled_regions,
)
from pygraph_lint.analysis.regions.loop_events import loop_events
from pygraph_lint.analysis.regions.training_loops import BodiesOf, LoopRegions, no_bodies
from pygraph_lint.analysis.syntax.nodes import deep_recursion, short
from pygraph_lint.analysis.syntax.spans import Span

_METHODS = ("method", "object")


def link(
    modules: Iterable[ModuleFacts],
    asked: RegionOptions = DEFAULT_REGIONS,
    unread: UnanalysedModules = EVERYTHING_ANALYSED,
    bodies_of: BodiesOf = no_bodies,
    before: Project | None = None,
) -> Project:
    """Join the facts of all files of a project; ``asked`` are regions that the user names,
    ``unread`` the modules that are left out. ``bodies_of`` gives what the training loops of a file
    do. ``before`` is the project before some files changed, with the same ``unread``; where it can
    be used its program is changed, and it must not be asked any more.
    """
    modules = list(modules)
    with deep_recursion():
        if before is not None and before.program.take(modules):
            return Project(before.program, asked, bodies_of, before)
        return Project(Program(modules, unread), asked, bodies_of)


class Project:
    """Answers questions that need more than one file."""

    def __init__(
        self,
        program: Program,
        asked: RegionOptions,
        bodies_of: BodiesOf = no_bodies,
        before: Project | None = None,
    ) -> None:
        """``before`` is of the same program, before it took new facts of some files."""
        self.program = program
        self._asked = asked
        options = None if asked.every else OptionValues(program)
        # Whether a predicate can give a value does not depend on who calls what.
        self._conditions = conditions = Proof(program, CallSources(lambda _: ()), options=options)
        kept = before if before is not None and before._still_holds(asked, conditions) else None

        def possible(call: Call) -> bool:
            return _is_possible(conditions, call.needs)

        self._compiled: Reached = (
            kept._compiled if kept is not None else compiled_regions(program, possible, asked)
        )
        self._compiled.possible = possible
        compiled = self._compiled
        calls = CallSources(compiled.called_from, compiled.entered, compiled.calls_from_outside)
        self._proof = Proof(program, calls, options=options)
        self._loops: LoopRegions = (
            kept._loops
            if kept is not None and kept._loops.still_hold(program.replaced or (), bodies_of)
            else LoopRegions(program, self._compiled, bodies_of, asked)
        )
        calls = CallSources(self._loops.called_from, self._loops.starts)
        self._loop_proof = Proof(program, calls, self._loops.returned, options)
        self._views: dict[str, ProjectView] = {}

    def _still_holds(self, asked: RegionOptions, conditions: Proof) -> bool:
        """Whether regions start and end as they did, after the program took new facts: its
        ``conditions`` are those that calls stand under.
        """
        replaced = self.program.replaced
        same = replaced is not None and asked == self._asked and not asked.every
        return (
            same
            and conditions.agrees_with(self._conditions)
            and self._compiled.still_holds(replaced or ())
        )

    @property
    def missing(self) -> set[str]:
        """The modules that were left out, and that a question so far has led to."""
        return self.program.missing

    def region(self, function: str, needs: tuple[Need, ...] = ()) -> Region | None:
        """Why a line of ``function`` that stands under some conditions runs in a compiled or
        captured region; None if it is not known to.
        """
        every = self._asked.every or self._compiled.kind(function) is None
        by = () if every else self._proof.paths.path(function, needs)
        return None if by is None else self._compiled.region(function, by)

    def reached_through(self, module: ModuleFacts) -> dict[str, list[str]]:
        """For each function in a region that one of the file's functions leads to, itself included:
        the functions through which it is reached, from itself outwards.
        """
        mine = module.functions.keys()
        chains = {name: self._compiled.chain(name) for name in self._compiled.functions}
        return {name: chain for name, chain in chains.items() if not mine.isdisjoint(chain)}

    def disabled_calls(self, function: str) -> Iterator[tuple[Call, str]]:
        """The calls of a function in a region to what is kept out of compiled code."""
        return self._compiled.disabled_calls(function)

    def confirmed(self, need: Need) -> bool:
        """Whether what a file assumed about another place holds."""
        return self._proof.holds(need)

    def loop_events(self, module: ModuleFacts) -> Iterator[tuple[Region, Event]]:
        """What costs on every step of a training loop, each with why it runs there."""
        for region, event in loop_events(module, self._loops):
            by = (
                ()
                if self._asked.every
                else self._loop_proof.paths.path(region.function, event.needs)
            )
            if by is not None and self._loop_proof.all_hold(event.needs):
                yield self._in_loop(region, by), event

    def _in_loop(self, region: Region, by: CallPath) -> Region:
        """The same code of a training loop, by a call path that leads to it."""
        steps = [
            f"line {call.span.line} calls {short(name)}" for name, call in by if call is not None
        ]
        start = self._loops.start_words.get(by[0][0]) if steps else None
        if start is None or steps == list(region.call_path[1:]):
            return region
        return replace(region, call_path=(start, *steps))

    def view(self, module: ModuleFacts) -> ProjectView:
        """What the project says about one of its files."""
        known = self._views.get(module.module)
        if known is None:
            known = ProjectView(
                module.module,
                module.is_package,
                self.program.patched_in(module),
                frozenset(name for name in module.classes if self.program.subclasses.get(name)),
                self._believed(module),
                left_out=self._left_out(module),
                called=frozenset(self._compiled.called(module)),
                wrapping=self._wrapping(module),
                waiting=frozenset(filter(self._waits, ("to", "cuda"))),
            )
            self._views[module.module] = known
        return known

    def _waits(self, name: str) -> bool:
        """Whether a class that is no module has a method of this name that has to wait."""
        methods = map(
            self.program.functions.__getitem__, self.program.methods_by_name.get(name, ())
        )
        return any(
            "non_blocking" not in method.parameters and not self.program.is_module(method.owner)
            for method in methods
        )

    def _left_out(self, module: ModuleFacts) -> frozenset[Span]:
        """Where functions of a file call what is kept out of compiled code."""
        names = module.functions
        return frozenset(call.span for name in names for call, _ in self.disabled_calls(name))

    def _wrapping(self, module: ModuleFacts) -> frozenset[str]:
        """The decorators in a file that put a function of their own around what they are given."""
        used = {name for facts in module.functions.values() for name in facts.decorators}
        return frozenset(filter(self.program.is_wrapping, used))

    def _believed(self, module: ModuleFacts) -> frozenset[Need]:
        """What values in the regions of a file rest on, where some call path confirms it."""
        found: set[Need] = set()
        for function in module.functions.values():
            if self._compiled.kind(function.name) is not None:
                found |= _assumptions(function)
        with deep_recursion():
            return frozenset(filter(self.confirmed, found))


def _assumptions(function: FunctionFacts) -> set[Need]:
    """What values in a function rest on: parameters, attributes, the results of calls."""
    found = {Need("param", function.name, name) for name in function.parameters}
    found |= {need for event in function.events for need in event.needs}
    for call in function.calls:
        called = f"{call.target}.{call.name}" if call.how in _METHODS else call.target
        if call.how in (*_METHODS, "function"):
            found.add(Need("return", called, ""))
        given = (*call.positional, *(value for _, value in call.named))
        found |= {need for value in given if value is not None for need in value.needs}
    found |= {each for need in found for choice in need.choices for each in choice}
    return {need for need in found if need.kind in ("param", "return", "attr")}


def _is_possible(proof: Proof, needs: tuple[Need, ...]) -> bool:
    """Whether the conditions that a call stands under can hold."""
    return all(proof.holds(need) for need in needs if need.kind in CONDITIONS)
