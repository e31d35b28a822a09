"""Which functions of a library its users may compile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

from pygraph_lint.analysis.domain.events import is_for_default
from pygraph_lint.analysis.interprocedural.call_graph import edges
from pygraph_lint.analysis.interprocedural.forwarded_parameters import ForwardedParameters
from pygraph_lint.analysis.program.facts import FunctionFacts, ModuleFacts
from pygraph_lint.analysis.program.program import Program

# How functions begin that run once, or around training: nobody compiles them.
_SET_UP = (
    *("init_", "initi", "reset_param", "load", "save", "from_pretrained", "convert", "export"),
    *("main", "plot", "print_", "seed", "show", "test_", "validat", "visuali", "extra_repr"),
)
# And where they get no tensor.
_BUILDS = ("build", "configure", "create", "make", "precompute", "prepare", "set_up", "setup")
# Folders and files of programs, and of what only tests use: users compile none of it.
_OF_PROGRAMS = frozenset(("bin", "cli", "commands", "scripts", "testing", "_testing"))
# How parameters are called that only what trains or judges a model gets.
_OF_TRAINING = ("loader", "optimizer")
# What functions that draw get of matplotlib.
_OF_PLOTS = frozenset(("ax", "axs", "axes", "fig"))
# How many calls away files may be used.
_MAX_CALLS = 3


class LibraryEntryPoints:
    """Which functions of a library its users may compile: those that get tensors, and do not do
    what a program does around compiled code.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._forwarded = ForwardedParameters(program)
        self._uses_files: dict[tuple[str, int], bool] = {}  # by function and number of calls

    def of(self, modules: Iterable[ModuleFacts], in_region: Callable[[str], bool]) -> Iterator[str]:
        """Those of some files; ``in_region`` says of a function whether it is in a region, which
        may be so because of one that was given before.
        """
        for module in modules:
            beside = _is_of_arrays(module) or not _OF_PROGRAMS.isdisjoint(module.module.split("."))
            plots = _imports(module, "matplotlib")
            for name in () if beside else module.functions:
                if plots and not _OF_PLOTS.isdisjoint(self._program.functions[name].parameters):
                    continue
                outer = name.rpartition(".<locals>.")[0]
                inside = outer and (in_region(outer) or _hands_out(self._program, outer, name))
                if self._may_be_compiled(name, bool(inside)):
                    yield name

    def _may_be_compiled(self, name: str, inside: bool) -> bool:
        """``inside``: it is a function in another one that is a region, or gives it away."""
        function = self._program.functions[name]
        made_once = name.endswith(".__init__") and (
            self._program.is_module(function.owner) or function.owner not in self._named
        )
        sets = bool(function.owner) and name.rpartition(".")[2].startswith("set_")
        collates = any("collat" in part.lower() for part in name.split(".")[-2:])
        trains = (
            any(parameter.endswith(_OF_TRAINING) for parameter in function.parameters)
            or (bool(function.owner) and self._program.drives_training(function.owner))
            or function.trains
        )
        return (
            (inside or _may_be_named(name))
            and not (made_once or trains or collates or sets or function.registered)
            and not (_sets_up(function) or _builds(function))
            and not function.of_numbers
            and not self._gives_modules(function)
            and (self._forwarded.takes_tensors(function) or self._is_of_module(function))
            and not self._works_with_files(name, _MAX_CALLS)
            and not self._runs_once(name, _MAX_CALLS)
        )

    def _runs_once(self, name: str, calls: int) -> bool:
        """Whether a function is called only where its file is run as a script, or only by
        constructors of modules, by what plots or sets up and by others that only they call, and is
        private or gets no tensor. What is private may be called by what uses files, too.
        """
        function = self._program.functions[name]
        callers = self._callers.get(name, set()) - {name} if calls else set()
        if not callers:
            return function.run_as_script
        private = self._is_private(name)
        inner = private or not (function.tensors or function.arrays)
        return inner and all(
            self._is_constructor(each)
            or _is_around(each)
            or (private and self._program.functions[each].uses_files)
            or self._runs_once(each, calls - 1)
            for each in callers
        )

    @cached_property
    def _callers(self) -> dict[str, set[str]]:
        """Of each function, the functions that may call or name it."""
        callers: dict[str, set[str]] = {}
        for function in self._program.functions.values():
            for _, found in edges(self._program, function):
                for target in found:
                    callers.setdefault(target, set()).add(function.name)
        return callers

    def _is_constructor(self, name: str) -> bool:
        return name.endswith(".__init__") and self._program.is_module(name.rpartition(".")[0])

    def _is_private(self, name: str) -> bool:
        owner, _, last = name.rpartition(".")
        private = last.startswith("_") and not last.startswith("__")
        return private and (self._program.is_module(owner) or owner not in self._program.classes)

    @cached_property
    def _named(self) -> frozenset[str | None]:
        """What code names without calling it, or keeps in a table: objects of such a class may be
        made in code that does not tell. Others are made where it is seen, or set up once.
        """
        program = self._program
        calls = (call for each in program.functions.values() for call in each.calls)
        kept = (each for table in program.groups for each in program.members(table))
        registered = (name for name, each in program.classes.items() if each.registered)
        named = (program.symbol(call.target) for call in calls if call.how == "mention")
        return frozenset((*named, *kept, *registered))

    def _gives_modules(self, function: FunctionFacts) -> bool:
        """Whether a function makes modules: nobody compiles it."""
        returned = function.returns
        return returned is not None and self._program.is_module(returned.cls)

    def _is_of_module(self, function: FunctionFacts) -> bool:
        """Whether a function is a module's method with a parameter that nothing explains."""
        return bool(function.unexplained) and self._program.is_module(function.owner)

    def _works_with_files(self, name: str, calls: int) -> bool:
        """Whether a function, or one that so many calls lead to, uses files or processes."""
        known = self._uses_files.get((name, calls))
        if known is not None:
            return known
        function = self._program.functions[name]
        called = edges(self._program, function) if calls else ()
        self._uses_files[name, calls] = function.uses_files or any(
            self._works_with_files(target, calls - 1)
            for call, found in called
            if call.how in ("function", "method", "object") and not is_for_default(call.needs)
            for target in found
        )
        return self._uses_files[name, calls]


def _sets_up(function: FunctionFacts) -> bool:
    """Whether a function without parameters, or one that has to do with no tensor, makes parameters
    or layers: it runs once.
    """
    made = any(event.kind == "effect.parameter-made" for event in function.events)
    return made and not (function.parameters and function.takes_tensors)


def _builds(function: FunctionFacts) -> bool:
    """Whether a function that gets no tensor is called like one that makes what others use."""
    last = function.name.rpartition(".")[2].lstrip("_")
    return last.startswith(_BUILDS) and not (function.tensors or function.arrays)


def _is_of_arrays(module: ModuleFacts) -> bool:
    """Whether a file computes with NumPy, and not with torch."""
    imported = {target.partition(".")[0] for target in module.bindings.values()}
    return "torch" not in imported and not imported.isdisjoint(("numpy", "scipy"))


def _imports(module: ModuleFacts, library: str) -> bool:
    return any(each.partition(".")[0] == library for each in module.bindings.values())


def _hands_out(program: Program, outer: str, inner: str) -> bool:
    """Whether a function that may be called by others names one of its own as a value."""
    facts = program.functions.get(outer)
    called = facts is not None and _may_be_named(outer)
    return called and any(call[:2] == ("mention", inner) for call in facts.calls)  # type: ignore[union-attr]


def _may_be_named(name: str) -> bool:
    """Whether a function is one that others call by its name, and not only to set things up. The
    top level of a file is none.
    """
    last = name.rpartition(".")[2]
    if last == "<module>":
        return False
    if last in ("setter", "deleter"):  # of a property
        return False
    if "<locals>" in name or last.startswith("__"):
        return "<locals>" not in name and last in ("__call__", "__init__")
    return not _is_around(name)


def _is_around(name: str) -> bool:
    """Whether a function is called like one that runs once, or around training."""
    last = name.rpartition(".")[2]
    return last.lstrip("_").startswith(_SET_UP) or "state_dict" in last or "plot" in last
