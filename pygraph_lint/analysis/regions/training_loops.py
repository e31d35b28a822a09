"""Which code runs on every step of a training loop: the loops, and the functions they call."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.region import Region, RegionKind
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interprocedural.call_graph import targets
from pygraph_lint.analysis.interprocedural.passed_functions import parameters_given
from pygraph_lint.analysis.program.facts import (
    ACTS,
    COLLATES,
    GIVES,
    MAY_CALL_STEP,
    NO_BODIES,
    PER_BATCH,
    UPDATES,
    Call,
    FileLoops,
    FunctionFacts,
    LoopBody,
    ModuleFacts,
    imports,
    is_program,
)
from pygraph_lint.analysis.program.program import Program
from pygraph_lint.analysis.regions.compiled import DEFAULT_REGIONS, Reached, RegionOptions
from pygraph_lint.analysis.regions.named_devices import NamedDevices
from pygraph_lint.analysis.regions.receiver_names import ReceiversByName, is_of_loss
from pygraph_lint.analysis.syntax.nodes import short
from pygraph_lint.analysis.syntax.spans import Span

_MAX_CALLS = 6  # from a loop to what it calls
_MAX_HANDED_ON = 3  # from a step to a function that a loop calls
_GUESSED = frozenset(("mention", "by name", "unique", "hook"))
_OF_OBJECTS = frozenset(("by name", "unique", "resolved", "receiver"))  # whose name is the target
# Functions that a call does not name.
_UNNAMED = frozenset(("forward", "__call__", "__init__", "__post_init__"))
# Functions that run once or now and then, whatever they call.
_ONCE = frozenset(("main", "__init__", "fit", "run"))

_GIVE_ACTIONS = frozenset(("act", "get_action", "select_action", "predict_action"))
_NOT_TRAINING = PER_BATCH | {MAY_CALL_STEP, ACTS}
# Functions that set up, load, save or evaluate do not run on every step.
_RUN_ONCE = re.compile(
    r"(^|_)(lazy|initiali[sz]e|setup|set_up|connect|register_\w+|checkpoint)(_|$)"
    r"|^_*(evaluate|eval|validate|validation|val)(_(?!args|input|action)|$)|^_*(load|save)_"
)
_EVALUATES = re.compile(r"eval|test|play|render|demo|record|visual|valid|enjoy|warm")

BodiesOf = Callable[[ModuleFacts], FileLoops]


def no_bodies(module: ModuleFacts) -> FileLoops:
    """The training loops of a file whose text is not known."""
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
        asked: RegionOptions = DEFAULT_REGIONS,
    ) -> None:
        self._callers: dict[str, list[tuple[str, Call]]] = defaultdict(list)
        self._program = program
        self._compiled = compiled
        self._bodies_of = bodies_of
        self._bodies: dict[str, FileLoops] = {}
        self._paths: dict[str, tuple[str, ...]] = {}
        self._placed: set[str] = set()  # what loops run whose files name a device
        self._devices = NamedDevices(program)
        self._every = asked.every
        self._of_models: dict[str, tuple[str, ...]] = {}  # what models run, where steps call them
        self._receivers = ReceiversByName(program)
        self._resolved: dict[str, dict[Span, list[Call]]] = {}
        modules = [each for each in program.modules.values() if not each.is_test]
        counting = [each for each in modules if asked.counts(each.module)]
        if not any(each.loops.starts or each.loops.called for each in counting):
            modules = []  # whose steps nothing here calls
        self._trains = self._with_steps(modules, lambda body: body.why not in _NOT_TRAINING)
        self._steps = self._with_callers(modules, self._with_steps(modules, self._is_whole))
        self._found = starts = self._starts_in(counting)
        self._starts = {_key(body) for body in starts}
        self.starts = {body.function: RegionKind.HOST_LOOP for body in starts}
        self.start_words = {body.function: _start(body) for body in reversed(starts)}
        whole = {body.function for body in starts if body.whole or asked.every}
        self._passes = {body.function for body in starts if body.passes} - whole
        self._moving: dict[tuple[str, int, str], bool] = {}
        named_in, file_of = self._devices.named_in, program.module_of
        placed = {body.function: named_in(file_of(body.function)) for body in starts}
        self._metrics = {body.function for body in starts if body.why == UPDATES}
        trained = (body.function for body in starts if body.why not in _NOT_TRAINING)
        self._on_devices = {_package(name) for name in trained if placed[name]}
        self._follow_starts(starts, placed)
        self._follow_models()

    def _follow_starts(self, starts: Sequence[LoopBody], placed: Mapping[str, bool]) -> None:
        """Follow what loops call, first those whose files name a device (``placed``)."""
        for body in sorted(starts, key=lambda each: not placed[each.function]):
            if body.why != COLLATES:  # which works on the host, and whatever it calls
                self._follow(body, placed[body.function])

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
            or not (self._paths.keys() | self._of_models.keys()).isdisjoint(each.functions)
            for pair in replaced
            for each in pair
        )

    def called_from(self, function: str) -> Sequence[tuple[str, Call]]:
        """The calls on every step that may reach a function, each with the function around it."""
        return self._callers.get(function, ())

    def bodies(self, module: ModuleFacts) -> FileLoops:
        """What the training loops of a file do, and its functions that they may call."""
        if not module.loops.may_help:
            return NO_BODIES
        if module.module not in self._bodies:
            self._bodies[module.module] = self._bodies_of(module)
        return self._bodies[module.module]

    def _with_steps(
        self, modules: Iterable[ModuleFacts], counts: Callable[[LoopBody], bool]
    ) -> frozenset[str]:
        """The functions with steps that count, in a loop or as a whole."""
        return frozenset(
            body.function
            for module in modules
            if module.loops.starts
            for body in self.bodies(module).steps
            if counts(body)
        )

    def _is_whole(self, body: LoopBody) -> bool:
        """Whether a function is run on every step as a whole."""
        return body.whole and body.why not in PER_BATCH and not self._is_compiled(body.function)

    def _with_callers(
        self, modules: Sequence[ModuleFacts], found: frozenset[str]
    ) -> frozenset[str]:
        """Steps, and the functions that call one of another file outside of a loop, and so on: a
        trainer's step that hands the batch on to a strategy, which hands it on to a policy.
        """
        new = found
        for _ in range(_MAX_HANDED_ON):
            words = {name.rpartition(".")[2] for name in new} - _UNNAMED
            callers = {
                facts.name
                for module in modules
                if module.loops.may_help
                for facts in module.functions.values()
                if facts.name not in found and self._may_call(facts, words, new)
            }
            new = frozenset(name for name in callers if self._calls_one_of(name, new))
            found |= new
        return found

    def _may_call(self, facts: FunctionFacts, words: set[str], steps: frozenset[str]) -> bool:
        """Whether a function calls one of some steps, which have these names."""
        if facts.name.rpartition(".")[2] in _ONCE:
            return False
        return any(
            (call.name or call.target).rpartition(".")[2] in words
            and call.how != "mention"
            and not steps.isdisjoint(targets(self._program, call))
            for call in facts.calls
        )

    def _calls_one_of(self, function: str, steps: frozenset[str]) -> bool:
        """Whether a function calls a step outside of a loop."""
        body = self._helper(function)
        calls = body.calls if body is not None else ()
        return any(not steps.isdisjoint(self._reached(function, call)) for call in calls)

    def _starts_in(self, modules: Iterable[ModuleFacts]) -> list[LoopBody]:
        words = {"step"}  # of an environment
        words.update(word for name in self._steps for word in _words(name))
        words |= {
            mark + name
            for name in parameters_given(self._program, self._steps)
            for mark in ("", "_")
        }
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
        if body.why == GIVES:
            return bool(self._trains)  # or the batches are for something else
        if body.why not in (MAY_CALL_STEP, ACTS):
            return True
        if body.why == MAY_CALL_STEP and _of_evaluation(body.function):
            return False  # by a step that is told not to train
        every = (*body.calls, *body.rare_calls)
        calls = (call for call in every if call.how != "hook")  # whose steps may be others'
        reached = {target for call in calls for target in self._reached(body.function, call)}
        if not reached.isdisjoint(self._steps):
            return True
        if body.why != ACTS:
            return False
        return self._leads_to_training(reached) or self._is_beside_training(body.function)

    def _is_beside_training(self, function: str) -> bool:
        """Whether the class of a function, or the file of one without a class, trains, too."""
        if _EVALUATES.search(function.rpartition(".")[2]) is not None:
            return False
        facts = self._program.functions.get(function)
        around = facts.owner if facts is not None else ""
        if not around:
            module = self._program.module_of(function)
            around = module.module if module is not None else function
        classes = {around, *self._program.subclasses.get(around, ())}
        return any(name.rpartition(".")[0] in classes for name in self._trains)

    def _leads_to_training(self, functions: set[str]) -> bool:
        """Whether gradients are computed in what functions call, now and then, or in what
        subclasses have in their place.
        """
        owned = (
            (facts, name) for name in functions if (facts := self._program.functions.get(name))
        )
        below = {
            override
            for facts, name in owned
            for each in self._program.subclasses.get(facts.owner, ())
            if (override := self._program.classes[each].methods.get(name.rpartition(".")[2]))
        }
        front = functions | below
        seen = set(front)
        for _ in range(_MAX_HANDED_ON):
            if not seen.isdisjoint(self._trains):
                return True
            known = (self._program.functions.get(name) for name in front)
            calls = [call for facts in known if facts is not None for call in facts.calls]
            front = {target for call in calls for target in targets(self._program, call)} - seen
            seen |= front
        return not seen.isdisjoint(self._trains)

    def of_start(self, body: LoopBody) -> Region | None:
        """The region that a loop, or a function run on every step, is."""
        if _key(body) not in self._starts:
            return None
        return Region(body.function, (_start(body),), RegionKind.HOST_LOOP)

    def of_function(self, name: str) -> Region | None:
        """Why a whole function runs on every step; None if it is not known to."""
        path = self._paths.get(name)
        return None if path is None else Region(name, path, RegionKind.HOST_LOOP)

    def of_model(self, name: str) -> Region | None:
        """Why a function runs on every step that only models call, which are not compiled."""
        path = self._of_models.get(name) if name not in self._paths else None
        return None if path is None else Region(name, path, RegionKind.HOST_LOOP)

    def reaches(self, module: ModuleFacts) -> bool:
        """Whether a file has code that runs on every step."""
        names = module.functions.keys()
        known = module.module in self._bodies or not self._paths.keys().isdisjoint(names)
        return known or not self._of_models.keys().isdisjoint(names)

    def moving_near(self, module: ModuleFacts) -> Region | None:
        """A loop that moves batches to the device, of a file that imports this one, or that is
        imported by it or by a file that imports both.
        """
        if not module.loaders or module.is_test:
            return None
        files = self._program.modules.values()
        users = [each for each in files if imports(each, module) and is_program(each)]
        for body in self._found:
            other = self._program.module_of(body.function)
            near = other is not None and (
                other is module
                or imports(other, module)
                or any(self._leads_to(each, other) for each in (module, *users))
            )
            if near and self._moves(body):
                return self.of_start(body)
        return None

    def _moves(self, body: LoopBody) -> bool:
        """Whether a step moves batches to the device, or hands them to a function that does."""
        key = _key(body)
        if key not in self._moving:
            calls = body.calls if body.why not in PER_BATCH else ()
            called = (
                self._helper(name)
                for call in calls
                if call.positional or call.named
                for name in self._reached(body.function, call)
            )
            self._moving[key] = body.moves_batches or any(
                helper is not None and helper.moves_batches for helper in called
            )
        return self._moving[key]

    def _leads_to(self, module: ModuleFacts, other: ModuleFacts) -> bool:
        """Whether a file imports another one, or something that is defined there."""
        found = filter(None, map(self._program.symbol, module.bindings.values()))
        return imports(module, other) or any(self._program.module_of(e) is other for e in found)

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

    def has_device(self, module: ModuleFacts, function: str) -> bool:
        """Whether the file of a function, or that of a loop which runs it, names a device, or one
        beside it does: a program without one waits for none. For a running metric it is enough that
        its package trains on one.
        """
        known = function in self._metrics and _package(function) in self._on_devices
        return known or self._every or function in self._placed or self._devices.named_in(module)

    def _follow(self, start: LoopBody, placed: bool) -> None:
        queue = deque(self._called(start, (_start(start),)))
        while queue:
            name, path = queue.popleft()
            known = name in self._paths or len(path) > _MAX_CALLS
            if known or self._is_compiled(name):
                continue
            if name.endswith(".forward") and not is_of_loss(name):
                self._of_models.setdefault(name, path)  # most of it is reported as a model's code
                continue
            if self._runs_once(name):
                continue
            if name in self._passes:  # its loop is the step, and what is beside that runs once
                continue
            self._paths[name] = path
            if placed:
                self._placed.add(name)
            helper = self._helper(name)
            if helper is not None:
                queue += self._called(helper, path)
            elif name in self._program.functions:
                queue += self._call_of(name, self._program.functions[name].calls, path)

    def _runs_once(self, function: str) -> bool:
        """Whether a function sets up, loads, saves or evaluates, by its name; a policy's method
        evaluates actions.
        """
        facts = self._program.functions.get(function)
        owner = self._program.classes.get(facts.owner) if facts is not None else None
        acts = owner is not None and not _GIVE_ACTIONS.isdisjoint(owner.methods)
        return not acts and _RUN_ONCE.search(function.rpartition(".")[2]) is not None

    def _follow_models(self) -> None:
        """Follow the calls of models that steps call."""
        queue = deque(self._of_models.items())
        while queue:
            name, path = queue.popleft()
            helper = self._helper(name)
            if helper is None or len(path) > _MAX_CALLS:
                continue
            for target, longer in self._called(helper, path):
                if target not in self._of_models and not self._is_compiled(target):
                    self._of_models[target] = longer
                    queue.append((target, longer))

    def _called(
        self, body: LoopBody, path: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        yield from self._call_of(body.function, [*body.calls, *body.inner_calls], path)
        for found in self._call_of(body.function, body.iterates, path):
            helper = self._helper(found[0])
            if helper is not None and helper.yields:
                yield found

    def _call_of(
        self, function: str, calls: Iterable[Call], path: tuple[str, ...]
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        for call in calls:
            if call.how == "mention":
                continue
            for target in self._reached(function, call):
                self._callers[target].append((function, call))
                step = f"line {call.span.line} calls {short(target)}"
                yield target, (*path, step)

    def _reached(self, function: str, call: Call) -> Sequence[str]:
        """The functions of the project that a call in ``function`` may reach. What the facts of
        the file know of the object comes before its method's name.
        """
        if call.how == "given":
            return targets(self._program, call) or self._of_attribute(call)
        found = () if call.how in ("resolved", "receiver") else targets(self._program, call)
        guessed = call.how in ("by name", "unique")
        if found and not guessed:
            return found
        known = self._known_calls(function).get(call.span, ())
        certain = [target for each in known for target in targets(self._program, each)]
        if certain:
            return certain
        if call.how in ("method", "object"):
            return self._of_attribute(call)
        if guessed and found and self._alike(found):
            return found
        return self._receivers.methods(call) if call.how in _OF_OBJECTS else ()

    def _of_attribute(self, call: Call) -> Sequence[str]:
        """What calling an attribute may reach: what its class is made with, or told by its name."""
        owner = self._program.class_named(call.target)
        held = self._program.attribute(owner, call.name) if owner is not None else None
        if held is not None and held.flags & v.MODULE:  # a layer of torch
            return ()
        need = held.needs[0] if held is not None and held.needs else None
        of = call if need is None else call._replace(target=need.owner, name=need.name)
        given = targets(self._program, of._replace(how="given")) if need is not None else ()
        return given or self._receivers.methods(call._replace(target=call.name, name="__call__"))

    def _known_calls(self, function: str) -> dict[Span, list[Call]]:
        """The calls of a function whose object or name its file's facts know, by place."""
        if function not in self._resolved:
            known: dict[Span, list[Call]] = defaultdict(list)
            facts = self._program.functions.get(function)
            for call in facts.calls if facts is not None else ():
                if call.how not in _GUESSED:
                    known[call.span].append(call)
            self._resolved[function] = known
        return self._resolved[function]

    def _alike(self, functions: Sequence[str]) -> bool:
        """Whether functions that a call may mean by a name have the same parameters; models name
        them as they like.
        """
        found = [self._program.functions.get(name) for name in functions]
        known = [facts for facts in found if facts is not None]
        models = all(facts.owner and self._program.is_module(facts.owner) for facts in known)
        return len({len(each.parameters) if models else each.parameters for each in known}) == 1


def _of_evaluation(function: str) -> bool:
    """Whether a function evaluates and does not train, by its name."""
    name = function.rpartition(".")[2]
    return name.lstrip("_").startswith(("eval", "valid")) and "train" not in name


def _words(function: str) -> Iterator[str]:
    """The names by which code may call a function: its own, and that of one which returns it."""
    outer, _, own = function.rpartition(".")
    yield own
    if outer.endswith(".<locals>"):
        yield outer.removesuffix(".<locals>").rpartition(".")[2]


def _package(function: str) -> str:
    return function.partition(".")[0]


def _start(body: LoopBody) -> str:
    return f"{short(body.function)} ({body.why}, line {body.line})"


def _key(body: LoopBody) -> tuple[str, int, str]:
    return body.function, body.line, body.why
