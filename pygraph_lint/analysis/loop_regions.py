"""Which code runs on every step of a training loop: the loops, and the functions they call."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from pygraph_lint.analysis.call_graph import targets
from pygraph_lint.analysis.model import (
    MAY_CALL_STEP,
    NO_BODIES,
    Call,
    FileLoops,
    LoopBody,
    ModuleFacts,
)
from pygraph_lint.analysis.nodes import short
from pygraph_lint.analysis.places import Region, RegionKind
from pygraph_lint.analysis.program import Program
from pygraph_lint.analysis.regions import NOTHING_ASKED, Asked, Reached
from pygraph_lint.analysis.values import Value

_MAX_CALLS = 8  # from a loop to what it calls
# Functions that a call does not name.
_UNNAMED = frozenset(("forward", "__call__", "__init__", "__post_init__"))

BodiesOf = Callable[[ModuleFacts], FileLoops]


def no_bodies(module: ModuleFacts) -> FileLoops:
    """The training loops of a file whose text is not at hand."""
    return NO_BODIES


class LoopRegions:
    """What runs on every step of a training loop. A function that is compiled belongs to its
    compiled region.

    ``bodies_of`` gives the bodies of a file. It is only asked for files that may start a training
    loop, and for those whose functions are reached from one.
    """

    def __init__(
        self,
        program: Program,
        compiled: Reached,
        bodies_of: BodiesOf = no_bodies,
        asked: Asked = NOTHING_ASKED,
    ) -> None:
        self._callers: dict[str, list[Call]] = defaultdict(list)
        self._program = program
        self._compiled = compiled
        self._bodies_of = bodies_of
        self._bodies: dict[str, FileLoops] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        modules = [
            module
            for module in program.modules.values()
            if asked.counts(module.module) and not module.is_test
        ]
        self._steps = self._whole_steps(modules)
        starts = self._starts_in(modules)
        self._starts = {_key(body) for body in starts}
        for body in starts:
            self._follow(body)

    def still_hold(
        self, replaced: Iterable[tuple[ModuleFacts, ModuleFacts]], bodies_of: BodiesOf
    ) -> bool:
        """Whether all of this is the same after the program took new facts of some files, given
        with the old ones: no training loop is in them or leads to them.
        """
        self._bodies_of = bodies_of
        return not any(
            each.loops.starts
            or each.loops.called
            or each.module in self._bodies
            or not self._paths.keys().isdisjoint(each.functions)
            for pair in replaced
            for each in pair
        )

    def calls_of(self, function: str) -> Sequence[Call]:
        """The calls on every step that may reach a function."""
        return self._callers.get(function, ())

    def bodies(self, module: ModuleFacts) -> FileLoops:
        """What the training loops of a file do, and its functions that they may call."""
        if not module.loops.may_help:
            return NO_BODIES
        if module.module not in self._bodies:
            self._bodies[module.module] = self._bodies_of(module)
        return self._bodies[module.module]

    def _whole_steps(self, modules: Iterable[ModuleFacts]) -> frozenset[str]:
        """The functions that are run on every step as a whole."""
        return frozenset(
            body.function
            for module in modules
            if module.loops.starts
            for body in self.bodies(module).steps
            if body.whole and not self._is_compiled(body.function)
        )

    def _starts_in(self, modules: Iterable[ModuleFacts]) -> list[LoopBody]:
        words = {name.rpartition(".")[2] for name in self._steps}
        unnamed = not words.isdisjoint(_UNNAMED)
        found: list[LoopBody] = []
        for module in modules:
            called = module.loops.called
            may_call = bool(called) and (
                (unnamed and module.loops.words) or not words.isdisjoint(called)
            )
            if module.loops.starts or may_call:
                found += [body for body in self.bodies(module).steps if self._counts(body)]
        return found

    def _counts(self, body: LoopBody) -> bool:
        """Whether a loop or function is run on every step of a training loop."""
        if self._is_compiled(body.function):
            return False
        if body.why != MAY_CALL_STEP:
            return True
        reached = {target for call in body.calls for target in targets(self._program, call)}
        return not reached.isdisjoint(self._steps)

    def of_start(self, body: LoopBody) -> Region | None:
        """The region that a loop, or a function run on every step, is."""
        if _key(body) not in self._starts:
            return None
        return Region(body.function, (_start(body),), RegionKind.HOST_LOOP)

    def of_function(self, name: str) -> Region | None:
        """Why a whole function runs on every step; None if it is not known to."""
        path = self._paths.get(name)
        return None if path is None else Region(name, path, RegionKind.HOST_LOOP)

    def reaches(self, module: ModuleFacts) -> bool:
        """Whether a file has code that runs on every step."""
        return module.module in self._bodies or not self._paths.keys().isdisjoint(module.functions)

    def returned(self, function: str) -> Value | None:
        """What a function gives, from the way loops use it; None where that says nothing."""
        helper = self._helper(function)
        return None if helper is None else helper.returns

    def _helper(self, function: str) -> LoopBody | None:
        """The body of a function that is no step itself."""
        module = self._program.module_of(function)
        return self.bodies(module).helpers.get(function) if module is not None else None

    def _is_compiled(self, function: str) -> bool:
        kind = self._compiled.kind(function)
        return kind in (RegionKind.COMPILED, RegionKind.CAPTURED)

    def _follow(self, start: LoopBody) -> None:
        queue = deque(self._called([*start.calls, *start.inner_calls], (_start(start),)))
        while queue:
            name, path = queue.popleft()
            if name in self._paths or len(path) > _MAX_CALLS:
                continue
            if self._is_compiled(name) or name.endswith(".forward"):
                continue  # a model's code: reported as such
            self._paths[name] = path
            helper = self._helper(name)
            facts = self._program.functions.get(name)
            known = facts.calls if facts is not None else ()
            queue += self._called(helper.calls if helper is not None else known, path)

    def _called(
        self, calls: Iterable[Call], path: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for call in calls:
            if call.how == "mention":
                continue
            reached = targets(self._program, call)
            if call.how in ("named", "lone") and not self._alike(reached):
                continue
            for target in reached:
                self._callers[target].append(call)
                step = f"line {call.span.line} calls {short(target)}"
                yield target, (*path, step)

    def _alike(self, functions: Sequence[str]) -> bool:
        """Whether functions that a call may mean by a name have the same parameters."""
        known = [self._program.functions.get(name) for name in functions]
        return len({facts.parameters for facts in known if facts is not None}) == 1


def _start(body: LoopBody) -> str:
    return f"{short(body.function)} ({body.why}, line {body.line})"


def _key(body: LoopBody) -> tuple[str, int, str]:
    return body.function, body.line, body.why
