"""Which functions run in a region, and by which call path: what is reached from a start."""

from __future__ import annotations

import fnmatch
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.call_graph import edges
from pygraph_lint.analysis.model import Call, Root
from pygraph_lint.analysis.nodes import short
from pygraph_lint.analysis.passed_on import PassedOn
from pygraph_lint.analysis.places import Region, RegionKind
from pygraph_lint.analysis.program import Program

_SHOWN_STEPS = 8
# How functions begin that run once, or around training: nobody compiles them.
_SET_UP = tuple(
    "init reset_param load save from_pretrained convert export plot show main test_".split()
)


class Reached:
    """The functions reached from the starts added so far. The first call path to a function stays.

    ``possible`` says of a call whether the conditions it stands under can hold.
    """

    def __init__(self, program: Program, possible: Callable[[Call], bool]) -> None:
        self.callers: dict[str, list[Call]] = defaultdict(list)
        self.entered: dict[str, RegionKind] = {}
        # Calls, by function, to what torch.compiler.disable keeps out of the region.
        self.disabled_calls: dict[str, list[tuple[Call, str]]] = defaultdict(list)
        self._program = program
        self._possible = possible
        self._steps: dict[str, _Step] = {}
        self._wrappers: list[tuple[str, str]] = []
        self._disabled = {name for name, facts in program.functions.items() if facts.disabled}

    def region(self, function: str) -> Region | None:
        """Why ``function`` runs in a region; None if it is not known to."""
        if function not in self._steps:
            return None
        path: list[str] = []
        name = function
        kind = self._steps[function].kind
        while name:
            path.append(self._steps[name].in_words(name))
            name = self._steps[name].parent
        path.reverse()
        if len(path) > _SHOWN_STEPS:
            path = [*path[: _SHOWN_STEPS // 2], "...", *path[-_SHOWN_STEPS // 2 :]]
        return Region(function, tuple(path), kind)

    def chain(self, function: str) -> list[str]:
        """The function and those through which it is reached, outermost last; empty where it is in
        no region.
        """
        found = []
        while function in self._steps:
            found.append(function)
            function = self._steps[function].parent
        return found

    @property
    def functions(self) -> list[str]:
        """All functions in regions."""
        return list(self._steps)

    def add(self, start: str, why: str, kind: RegionKind) -> None:
        """Everything reachable from ``start`` is in a region, unless it already is in one."""
        if start in self._steps:
            return
        self.entered[start] = kind
        queue = deque([(start, _Step("", f"{short(start)} ({why})", 0, kind))])
        while queue:
            name, step = queue.popleft()
            facts = self._program.functions.get(name)
            if name in self._steps or facts is None or facts.ends_region:
                continue
            self._steps[name] = step
            for other, how in self._beside(name, facts.decorators):
                queue.append((other, _Step(name, how, 0, kind)))
            for call, found in edges(self._program, facts):
                if call.needs and not self._possible(call):
                    continue
                self._note(name, call, found)
                verb = "names" if call.how == "mention" else "calls"
                for target in found:
                    if target not in self._steps:
                        queue.append((target, _Step(name, verb, call.span.line, kind)))

    def _beside(self, name: str, decorators: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Functions that run when ``name`` is called, without a call being written."""
        for other in self._program.redefined.get(name, ()):
            yield other, f"is {short(name)}, defined again"
        for decorator in decorators:
            wrapper = self._program.symbol(decorator) or ""
            for inner in self._program.nested.get(wrapper, ()):
                self._wrappers.append((name, inner))
                if name in self.entered:
                    self.entered[inner] = self.entered[name]
                yield inner, f"is wrapped by {short(inner)}"

    def pass_to_wrappers(self) -> None:
        """What is passed to a decorated function is passed to the function around it."""
        for name, inner in self._wrappers:
            bound = bool(self._program.functions[name].owner)
            for call in self.callers.get(name, ()):
                given = (None, *call.positional) if bound else call.positional
                self.callers[inner].append(call._replace(positional=given))
        self._wrappers.clear()

    def _note(self, name: str, call: Call, found: Sequence[str]) -> None:
        """Keep a call in ``name`` with the functions that it may reach."""
        if call.target.endswith(".apply") and found[0].endswith(".forward"):
            # Of an autograd Function: its context comes first.
            call = call._replace(positional=(None, *call.positional))
        for target in found:
            if target in self._disabled and call.how != "mention":
                self.disabled_calls[name].append((call, target))
            self.callers[target].append(call)


class _Step(NamedTuple):
    """How a function is reached from ``parent``: ``how`` in words, or, with a ``line``, a verb."""

    parent: str
    how: str
    line: int
    kind: RegionKind

    def in_words(self, function: str) -> str:
        return f"{self.how} {short(function)}, line {self.line}" if self.line else self.how


@dataclass(frozen=True)
class Asked:
    """Regions that a user asks for beside those that the code shows: functions and classes whose
    qualified names match a glob of ``entry_points``; with ``every``, whatever gets tensors.

    ``within`` limits the starts of regions to some modules, for a part of a project.
    """

    entry_points: tuple[str, ...] = ()
    every: bool = False
    within: frozenset[str] | None = None

    def counts(self, module: str) -> bool:
        """Whether regions may start in a module."""
        return self.within is None or module in self.within


NOTHING_ASKED = Asked()


def compiled_regions(
    program: Program, possible: Callable[[Call], bool], asked: Asked = NOTHING_ASKED
) -> Reached:
    """What is compiled or captured: first what provably is, or is said to be, then what any
    module's forward does, then what users of a library may compile.
    """
    reached = Reached(program, possible)
    modules = [module for module in program.modules.values() if asked.counts(module.module)]
    for module in modules:
        for root in module.roots:
            captured = root.road.startswith("captured") or "make_graphed" in root.road
            kind = RegionKind.CAPTURED if captured else RegionKind.COMPILED
            # A line of a notebook is none that its reader sees.
            place = module.path + ("" if module.path.endswith(".ipynb") else f":{root.line}")
            for target in _root_targets(program, root):
                reached.add(target, f"{root.road}, {place}", kind)
    for target, pattern in _named(program, asked.entry_points):
        reached.add(target, f"entry point {pattern}", RegionKind.COMPILED)
    for module in modules:
        for name, facts in module.classes.items():
            forward = facts.methods.get("forward")
            if forward is not None and program.is_module(name):
                reached.add(forward, "forward of an nn.Module", RegionKind.MODEL)
    passed_on = PassedOn(program)
    for module in modules if asked.every else ():
        for name, function in module.functions.items():
            outer = name.rpartition(".<locals>.")[0]
            inside = outer and reached.region(outer) is not None
            made_once = name.endswith(".__init__") and program.is_module(function.owner)
            if (
                passed_on.takes_tensors(function)
                and (inside or _may_be_compiled(name))
                and not made_once
            ):
                reached.add(name, "gets tensors, and may be compiled", RegionKind.MODEL)
    reached.pass_to_wrappers()
    return reached


def _may_be_compiled(name: str) -> bool:
    """Whether a function is one that others call by its name, and not only to set things up."""
    last = name.rpartition(".")[2]
    if "<locals>" in name or last.startswith("__"):
        return "<locals>" not in name and last in ("__call__", "__init__")
    return not last.lstrip("_").startswith(_SET_UP)


def _named(program: Program, patterns: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Functions that patterns name; of classes what calling an object runs."""
    for pattern in patterns:
        exact = program.symbol(pattern)
        names = [exact] if exact is not None else fnmatch.filter(program.functions, pattern)
        names += fnmatch.filter(program.classes, pattern)
        for name in names:
            target = program.called_method(name) if name in program.classes else name
            if target in program.functions:
                yield target, pattern


def _root_targets(program: Program, root: Root) -> Iterator[str]:
    found = program.symbol(root.target)
    if root.how == "result" and found in program.functions:
        given = program.functions[found].returns
        made = given is not None and given.kinds & v.INSTANCE and given.cls
        found = program.symbol(given.cls) if given is not None and made else None
        if found not in program.classes:
            return
    if found is None:
        owner, _, name = root.target.rpartition(".")
        method = program.method(owner, name) if owner in program.classes else None
    elif found in program.classes:
        method = program.method(found, "forward") or program.method(found, "__call__")
    else:
        method = found
    if method is not None:
        yield method
