"""Which functions run in a region, and by which call path: what is reached from a start."""

from __future__ import annotations

import fnmatch
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import CONDITIONS
from pygraph_lint.analysis.domain.region import Region, RegionKind
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import edges
from pygraph_lint.analysis.interprocedural.calls_outside_regions import CallsOutsideRegions
from pygraph_lint.analysis.interprocedural.feasible_paths import CallPath
from pygraph_lint.analysis.program.facts import (
    KEYWORDED,
    STARRED,
    Call,
    FunctionFacts,
    ModuleFacts,
    Root,
)
from pygraph_lint.analysis.program.parameters import holds_of_arrays
from pygraph_lint.analysis.program.program import Program
from pygraph_lint.analysis.regions.library_entry_points import LibraryEntryPoints
from pygraph_lint.analysis.syntax.nodes import short

_SHOWN_STEPS = 8
_FORWARD = "forward of an nn.Module"  # why a region starts
# Folders of what reads and prepares data for models, or exports them.
_BESIDE_MODELS = frozenset(
    """
        data dataset datasets dataio dataloader dataloaders datamodule datamodules
        export exporter exporters onnx
    """.split()
)


class Reached:
    """The functions reached from the starts added so far. The first call path to a function stays.

    ``possible`` says of a call whether the conditions it stands under can hold; with ``every``,
    functions that set up count, too. Calls are not kept, but looked up in the program when they are
    asked for: it may have moved them to other lines.
    """

    def __init__(
        self, program: Program, possible: Callable[[Call], bool], every: bool = False
    ) -> None:
        self.every = every
        self.entered: dict[str, RegionKind] = {}
        self._program = program
        self.possible = possible
        self._steps: dict[str, _Step] = {}
        self._callers: dict[str, list[str]] = defaultdict(list)  # functions in regions
        # What is around decorated functions: these, each with its number.
        self._wrapped: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._wrappers = 0
        self._calls: dict[str, list[tuple[str, Call]]] = {}  # what was asked for so far
        self._given: dict[str, frozenset[str]] = {}  # parameters that most calls pass
        self._outside: CallsOutsideRegions | None = None
        self._from_outside: dict[str, list[Call]] = {}
        # Functions in between that are left out alone: what they call is in regions.
        self.passed: dict[str, None] = {}

    def region(self, function: str, by: CallPath = ()) -> Region | None:
        """Why ``function`` runs in a region, as a call path says; None if it is not known to."""
        if function not in self._steps:
            return None
        start = by[0][0] if by and by[0][0] in self._steps else function
        names = self.chain(start)
        path = [self._in_words(name) for name in reversed(names)]
        if start != function:
            path += [self._in_words(name, call) for name, call in by[1:] if name in self._steps]
        if len(path) > _SHOWN_STEPS:
            path = [*path[: _SHOWN_STEPS // 2], "...", *path[-_SHOWN_STEPS // 2 :]]
        return Region(function, tuple(path), self._steps[function].kind)

    def _in_words(self, function: str, call: Call | None = None) -> str:
        """How a function is reached; without ``call`` by the first call in its parent that may."""
        step = self._steps[function]
        if step.how:
            return step.how
        if call is None:
            calls = self.calls_in(step.parent)
            call = next(each for each, found in calls if function in found)
        verb = "refers to" if call.how == "mention" else "calls"
        return f"line {call.span.line} {verb} {short(function)}"

    def kind(self, function: str) -> RegionKind | None:
        """The kind of the region that a function runs in; None where it is in none."""
        step = self._steps.get(function)
        return step.kind if step is not None else None

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

    def calls_in(self, function: str) -> Iterator[tuple[Call, Sequence[str]]]:
        """The calls of a function that can happen, with the functions that they may reach."""
        for call, found in edges(self._program, self._program.functions[function]):
            if not call.needs or self.possible(call):
                yield call, found

    def called_from(self, function: str) -> list[tuple[str, Call]]:
        """The calls in regions that may reach a function, each with the function around it. What is
        passed to a decorated function is passed to the function around it.
        """
        known = self._calls.get(function)
        if known is None:
            known = self._calls[function] = self._called_from(function, self._wrappers)
        return known

    def _called_from(self, function: str, wrappers: int) -> list[tuple[str, Call]]:
        """The same, through the first ``wrappers`` of the functions around others."""
        calls = [
            (name, self._of_function(call, found))
            for name in self._callers.get(function, ())
            for call, found in self.calls_in(name)
            for target in found
            if target == function
        ]
        for at, name in self._wrapped.get(function, ()):
            if at < wrappers:
                bound = bool(self._program.functions[name].owner)
                for caller, call in self._called_from(name, at):
                    given = (None, *call.positional) if bound else call.positional
                    calls.append((caller, call._replace(positional=given)))
        return calls

    def calls_from_outside(self, function: str) -> Sequence[Call]:
        """What code outside of regions passes to code outside of them, and to functions that they
        begin with.
        """
        if function in self._steps and function not in self.entered:
            return ()
        if self._outside is None:
            others = (f for name, f in self._program.functions.items() if name not in self._steps)
            self._outside = CallsOutsideRegions(self._program, others)
        known = self._from_outside.get(function)
        if known is None:
            found = self._outside.of(function)
            known = [_from_host(self._of_function(call, reached)) for call, reached in found]
            self._from_outside[function] = known
        return known

    def _of_function(self, call: Call, found: Sequence[str]) -> Call:
        """A call as the functions that it reaches see it: an autograd Function's context comes
        first, unless a method of its own fills it.
        """
        owner, _, method = found[0].rpartition(".")
        autograd = call.target.endswith(".apply") and method == "forward"
        if autograd and self._program.method(owner, "setup_context") is None:
            return call._replace(positional=(None, *call.positional))
        return call

    def called(self, module: ModuleFacts) -> Iterator[str]:
        """The functions of a file that functions of other files call in regions; and as
        ``function(size)`` the parameters with a default that most calls in regions pass.
        """
        own = module.functions
        for name, facts in own.items():
            callers = self._callers.get(name, ())
            if any(each not in own for each in callers):
                yield name
            for parameter in sorted(self._mostly_given(facts)) if callers else ():
                yield f"{name}({parameter})"

    def _mostly_given(self, facts: FunctionFacts, handed_on: bool = False) -> frozenset[str]:
        """The parameters with a default that most calls of a function in regions pass. What only
        hands on a parameter with the same default, which most calls of its own function do not
        pass, passes none, unless ``handed_on``.
        """
        counts: Counter[str] = Counter()
        calls = self.called_from(facts.name) if facts.defaults else []
        for caller, call in calls:
            left_out = () if handed_on else self._left_out(facts, caller, call)
            counts.update({*_passed(facts, call)}.difference(left_out))
        return frozenset(name for name, _ in facts.defaults if 2 * counts[name] > len(calls))

    def _left_out(self, facts: FunctionFacts, caller: str, call: Call) -> Iterator[str]:
        """The parameters for which a call hands on what its own function was not given."""
        around, defaults = self._program.functions.get(caller), dict(facts.defaults)
        own = dict(around.defaults) if around is not None else {}
        for name, value in (*zip(facts.parameters, call.positional, strict=False), *call.named):
            needs = value.needs if value is not None and _is_as_given(value) else ()
            if around is None or not needs or (needs[0].kind, needs[0].owner) != ("param", caller):
                continue
            handed = needs[0].name
            if handed not in own or own[handed] != defaults.get(name):
                continue
            if caller not in self._given:
                self._given[caller] = self._mostly_given(around, handed_on=True)
            if handed not in self._given[caller]:
                yield name

    def disabled_calls(self, function: str) -> Iterator[tuple[Call, str]]:
        """The calls of a function in a region to what torch.compiler.disable keeps out of it."""
        for call, found in self.calls_in(function) if function in self._steps else ():
            for target in found:
                facts = self._program.functions.get(target)
                if call.how != "mention" and facts is not None and facts.disabled:
                    yield call, target

    def add(self, start: str, why: str, kind: RegionKind) -> None:
        """Everything reachable from ``start`` is in a region, unless it already is in one."""
        if start in self._steps:
            return
        self.entered[start] = kind
        queue = deque([(start, _Step("", f"{short(start)} ({why})", kind))])
        passed = set()
        while queue:
            name, step = queue.popleft()
            facts = self._program.functions.get(name)
            if name in self._steps or name in passed or facts is None:
                continue
            if facts.ends_region and not facts.only_itself:
                continue
            if facts.owner and self._program.feeds_data(facts.owner):
                continue
            if kind is RegionKind.MODEL and self._is_left_out(facts, step):
                continue
            further = _Step(name, "", kind)
            if facts.only_itself and not self._program.is_wrapping(facts.kept_out):
                passed.add(name)
                self.passed[name] = None
                further = _Step(step.parent, f"is called by {short(name)}, which is disabled", kind)
            else:
                self._steps[name] = step
                for other, how in self._beside(name, facts.decorators):
                    queue.append((other, _Step(name, how, kind)))
            reached = dict.fromkeys(each for _, found in self.calls_in(name) for each in found)
            for target in reached:
                self._callers[target].append(name)
                if target not in self._steps:
                    queue.append((target, further))

    def _is_left_out(self, facts: FunctionFacts, step: _Step) -> bool:
        """Whether what is only believed to be compiled is not, or does not run on every call."""
        if facts.on_host:
            return True
        return bool(step.parent) and facts.uses_files

    def still_holds(self, replaced: Iterable[tuple[ModuleFacts, ModuleFacts]]) -> bool:
        """Whether all that was reached still is, after the program took new facts of some files:
        given with the old ones, where these define the same names.
        """
        self._calls.clear()
        self._given.clear()
        self._outside = None
        self._from_outside.clear()
        for old, new in replaced:
            others = ((name, old.functions[name], facts) for name, facts in new.functions.items())
            if [each._replace(line=0) for each in old.roots] != [
                each._replace(line=0) for each in new.roots
            ] or not all(was is now or self._leads_on(name, was, now) for name, was, now in others):
                return False
            self._move_starts(old, new)
        return True

    def _move_starts(self, old: ModuleFacts, new: ModuleFacts) -> None:
        """Say on which lines the starts are now that a file shows."""
        words = {
            _in_words(old, was): _in_words(new, now)
            for was, now in zip(old.roots, new.roots, strict=True)
            if was != now
        }
        for name, step in self._steps.items() if words else ():
            why = step.how.removeprefix(f"{short(name)} (").removesuffix(")")
            if not step.parent and why in words:
                self._steps[name] = step._replace(how=f"{short(name)} ({words[why]})")

    def _leads_on(self, name: str, old: FunctionFacts, new: FunctionFacts) -> bool:
        """Whether a function leads to what its old facts led to."""
        if _leads_to(old) != _leads_to(new):
            return False
        if name not in self._steps and not new.only_itself:
            return True
        facts, before = self._program.edges.get(name, (new, ()))
        return facts is old and _in_short(before) == _in_short(edges(self._program, new))

    def _beside(self, name: str, decorators: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Functions that run when ``name`` is called, without a call being written."""
        for other in self._program.redefined.get(name, ()):
            yield other, f"another definition of {short(name)}"
        for decorator in decorators:
            wrapper = self._program.symbol(decorator) or ""
            for inner in self._program.wrappers(wrapper):
                self._wrapped[inner].append((self._wrappers, name))
                self._wrappers += 1
                if name in self.entered:
                    self.entered[inner] = self.entered[name]
                yield inner, f"is wrapped by {short(inner)}"


def _passed(facts: FunctionFacts, call: Call) -> Iterator[str]:
    """The parameters of a function that a call passes, or may pass."""
    if STARRED in call.unknown or KEYWORDED in call.unknown:
        yield from facts.parameters
        return
    places = (len(call.positional), *(each + 1 for each in call.unknown if isinstance(each, int)))
    yield from facts.parameters[: max(places)]
    yield from (name for name, _ in call.named)
    yield from (each for each in call.unknown if isinstance(each, str))


def _is_as_given(value: Value) -> bool:
    """Whether a value is just what its need names: what may be a tensor may be worked out of it."""
    return bool(value.flags & v.SYMBOL) or not value.kinds & v.TENSOR


def _from_host(call: Call) -> Call:
    """A call outside of regions, without what may be an array of NumPy's as well as a tensor."""
    positional = tuple(
        [None if given and _of_arrays(given) else given for given in call.positional]
    )
    named = tuple([each for each in call.named if not _of_arrays(each[1])])
    return call._replace(positional=positional, named=named)


def _of_arrays(value: Value) -> bool:
    return value.is_tensor and holds_of_arrays(value.why)


def _in_words(module: ModuleFacts, root: Root) -> str:
    """Why a region starts, and where that is said."""
    # A line of a notebook is none that its reader sees.
    place = module.path + ("" if module.path.endswith(".ipynb") else f":{root.line}")
    return f"{root.why}, {place}"


def _leads_to(facts: FunctionFacts) -> tuple[object, ...]:
    """What a function says of regions, beside its calls."""
    value = facts.returns
    given = (value.const, value.cls, value.kinds) if value is not None else ()
    out = facts.ends_region, facts.disabled, facts.only_itself, facts.kept_out, facts.wraps
    return *out, facts.decorators, given


def _in_short(calls: Sequence[tuple[Call, Sequence[str]]]) -> list[tuple[object, ...]]:
    """What calls reach, and under which conditions, wherever they stand."""
    return [
        (call.how == "mention", found, [each for each in call.needs if each.kind in CONDITIONS])
        for call, found in calls
    ]


class _Step(NamedTuple):
    """How a function is reached from ``parent``: ``how`` in words, empty for a call."""

    parent: str
    how: str
    kind: RegionKind


@dataclass(frozen=True)
class RegionOptions:
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


DEFAULT_REGIONS = RegionOptions()


def compiled_regions(
    program: Program, possible: Callable[[Call], bool], asked: RegionOptions = DEFAULT_REGIONS
) -> Reached:
    """What is compiled or captured: first what provably is, or is said to be, then what any
    module's forward does, then what users of a library may compile.
    """
    reached = Reached(program, possible, asked.every)
    modules = [module for module in program.modules.values() if asked.counts(module.module)]
    for module in modules:
        for root in module.roots:
            captured = root.why.startswith("captured") or "make_graphed" in root.why
            kind = RegionKind.CAPTURED if captured else RegionKind.COMPILED
            for target in _root_targets(program, root):
                reached.add(target, _in_words(module, root), kind)
    for target, pattern in _named(program, asked.entry_points):
        reached.add(target, f"entry point {pattern}", RegionKind.COMPILED)
    modules = [module for module in modules if not _is_beside_models(module)]
    for forward in (each for module in modules for each in _forwards(program, module)):
        reached.add(forward, _FORWARD, RegionKind.MODEL)
    if not asked.every:
        return reached
    for name in LibraryEntryPoints(program).of(
        modules, lambda name: reached.kind(name) is not None
    ):
        reached.add(
            name, f"{_deals(program.functions[name])}, and may be compiled", RegionKind.MODEL
        )
        if not name.rpartition(".")[2].startswith("_"):  # users call it as they like
            reached.entered.setdefault(name, RegionKind.MODEL)
    return reached


def _deals(function: FunctionFacts) -> str:
    """What a function has to do with tensors, as far as its own lines say."""
    given = (*function.tensors, *function.arrays)
    return f"gets the tensor `{given[0]}`" if given else "computes with tensors"


def _forwards(program: Program, module: ModuleFacts) -> Iterator[str]:
    """The ``forward`` of each model in a file, but not of moving averages of weights."""
    for name, facts in module.classes.items():
        forward = facts.methods.get("forward", "")
        gets = program.functions.get(forward)
        averages = gets is not None and gets.of_modules
        if forward and program.is_module(name) and not averages:
            yield forward


def _is_beside_models(module: ModuleFacts) -> bool:
    """Whether a file is one of tests, prepares data, or is run as a command: what it defines is not
    compiled.
    """
    *folders, file = module.module.split(".")
    named = file in ("__main__", "dataset", "datasets", "dataloader", "dataloaders")
    return module.is_test or named or not _BESIDE_MODELS.isdisjoint(folders)


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
