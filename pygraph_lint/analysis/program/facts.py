"""The facts of one file in the form that is cached and linked; the syntax tree is not kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pygraph_lint.analysis.domain.events import Event, Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.syntax.spans import Span

# Among the arguments of a call: there may be more of them by place, or by name, than are written.
STARRED, KEYWORDED = "*", "**"
OF_MAPPING = "**{}"  # and which those are, is said by a mapping
# An attribute whose name is computed: ``setattr(self, f"layer{i}", ...)``.
ANY_NAME = "..."


class Call(NamedTuple):
    """A call, or a mention, of something the project may define.

    ``positional`` and ``named`` are the arguments of which something is known, None elsewhere;
    ``unknown`` are the places and keywords of the others, "*" and "**" where stars may pass more,
    and ``**function`` where these are the keywords that a function gets, ``**{}`` where they are
    those of another mapping. ``how`` says what is called:

    ``function``  the function ``target``, a qualified name
    ``method``    the method ``name`` of the class ``target``, along the inheritance order, or below
    ``object``    the same of an object of just that class
    ``super``     the same, starting behind ``target``
    ``instance``  an object of the class ``target``
    ``attribute`` what the attribute ``name`` of the class ``target`` holds
    ``result``    what the function ``target`` returns, or its method
    ``given``     what callers pass to the function ``target`` for its parameter ``name``
    ``mention``   nothing here: somebody may call the function
    ``by name``   a method ``name`` of an object of which nothing is known, or which is the argument
                  that ``target``, as ``Class.attribute``, keeps
    ``hook``      any method called ``name``

    In training loops also, with the name of the object as ``target``:

    ``unique``    the only method called ``name``
    ``resolved``  a method, where the facts of the file know of whom
    ``receiver``  a method of a class that the name of the object fits
    """

    how: str
    target: str
    name: str
    span: Span
    positional: tuple[Value | None, ...]
    named: tuple[tuple[str, Value], ...]
    needs: tuple[Need, ...]
    unknown: tuple[int | str, ...] = ()


class Root(NamedTuple):
    """Where a region provably starts: ``target`` is compiled or captured by ``why``. ``how`` is as
    in Call, or ``result``: what calling ``target`` gives, an object of a class.
    """

    how: str
    target: str
    why: str
    line: int


@dataclass(slots=True)
class FunctionFacts:
    """One function or method. ``name`` is qualified; ``owner`` is the class for methods, else
    empty.
    """

    name: str
    owner: str
    line: int
    parameters: tuple[str, ...]
    events: list[Event] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    returns: Value | None = None
    ends_region: bool = False
    registered: bool = False  # as an operator of torch.library, which torch.compile does not enter
    disabled: bool = False  # torch.compiler.disable keeps it out of compiled code
    only_itself: bool = False  # ... with recursive=False: what it calls is compiled
    kept_out: str = ""  # the decorator right below the last such one, if any
    wraps: bool = False  # functools.wraps: it stands in the place of another function
    on_host: bool = False  # has torch trace something, or gets objects of libraries without tensors
    uses_files: bool = False  # or plots, or other processes
    of_numbers: bool = False  # no method, and gets nothing but numbers and texts
    run_as_script: bool = False  # its file calls it below ``if __name__ == "__main__":``
    trains: bool = False  # it clears gradients, has them computed, and makes a step with them
    decorators: tuple[str, ...] = ()
    is_cached_without_parameters: bool = False  # cached, and without parameters
    of_modules: bool = False  # all that it gets are modules, whose weights it reads
    arrays: tuple[str, ...] = ()  # parameters that nothing explains, with an array's methods called
    tensors: tuple[str, ...] = ()  # parameters that are tensors, by annotation or by their use
    unexplained: tuple[str, ...] = ()  # parameters of which nothing is known
    takes_tensors: bool = False  # a parameter is a tensor, or it computes with one made elsewhere
    made_with: tuple[str, ...] = ()  # the constructor's parameters that it reads
    typed: tuple[str, ...] = ()  # types of other files that parameters are annotated with
    switched_on: tuple[str, ...] = ()  # parameters that are True by default
    sets_by_name: bool = False  # it sets attributes of its object whose names it is given
    defaults: tuple[tuple[str, Value], ...] = ()  # literals, and tensors that are made on the host
    named_only: tuple[str, ...] = ()  # parameters that are passed by name
    required: int = 0  # how many parameters have no default
    takes_object: bool = False  # its first argument is the object, which is no parameter here


class StoredOption(NamedTuple):
    """What a statement makes an attribute keep: an argument of the constructor, a constant, what
    another object keeps by a name (``settings.flag``), or anything else.
    """

    parameter: str = ""
    const: object = None
    is_const: bool = False


@dataclass(slots=True)
class ClassFacts:
    """One class: its bases as qualified names, what its attributes hold, the names of its
    methods, and which of these are computed once and kept (``functools.cached_property``).
    ``options`` are what each attribute is made to keep by the statements of the class.
    ``registered``: a decorator puts it into a table.
    """

    name: str
    line: int
    bases: tuple[str, ...]
    registered: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)
    methods: dict[str, str] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    properties: set[str] = field(default_factory=set)
    options: dict[str, tuple[StoredOption, ...]] = field(default_factory=dict)


# Why a loop may run on every step: it does if it calls a function that is run on every step.
MAY_CALL_STEP = "calls a training step on every turn"
# The same of one that acts in an environment: it does if training is reached from it at all.
ACTS = "acts in the environment on every turn"
# What is run for every batch, in training and outside of it.
UPDATES, COLLATES = "is updated with every batch", "makes the samples of every batch"
MOVES, GIVES = "moves the parts of every batch", "gives every batch"
ACTS_IN = "is a step of the environment"
PER_BATCH = frozenset((UPDATES, COLLATES, MOVES, GIVES, ACTS_IN))


@dataclass(slots=True)
class LoopBody:
    """What is run on every step of a training loop: a loop, a function that computes gradients, or
    with an empty ``why`` a function that counts where a step calls it.

    ``function`` is the qualified name of the function around, ``why`` says why it runs on every
    step. ``returns`` is what the function gives, from the way loops use it; ``whole`` says that the
    body is all of the function. ``inner_calls`` are calls in loops inside a loop that only counts
    if it calls a step itself: they do not count for that. ``rare_calls`` are those of a loop that
    acts in an environment which are not made on each turn. ``iterates`` are calls whose results
    loops go over, ``yields`` says that the body is what a generator does for each of these.
    ``moves_batches``: to the device; of a function that counts where a step calls it, what it is
    passed. ``passes`` says that a loop goes over all batches.
    """

    function: str
    line: int
    why: str
    events: list[Event]
    calls: list[Call]
    returns: Value | None = None
    whole: bool = False
    inner_calls: list[Call] = field(default_factory=list)
    rare_calls: list[Call] = field(default_factory=list)
    moves_batches: bool = False
    iterates: list[Call] = field(default_factory=list)
    yields: bool = False
    passes: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not self.events and not self.calls and self.returns is None


class FileLoops(NamedTuple):
    """What the training loops of a file do: its loops and step functions, and by name the functions
    that these may call.
    """

    steps: Sequence[LoopBody]
    helpers: Mapping[str, LoopBody]


NO_BODIES = FileLoops((), {})


@dataclass(frozen=True, slots=True)
class LoopHints:
    """Whether the training loops of a file, or the functions that these call, are worth a look.

    ``may_help``: a loop may call functions of the file. ``starts``: the file computes gradients,
    compiles something beside a loop, or has a step that a trainer calls. ``called`` are the last
    names of what its loops call, where one of them may call a step; ``words`` says that they may
    call a step that has no name. ``places``: the file names a device, or what moves models there.
    """

    may_help: bool = False
    starts: bool = False
    called: frozenset[str] = frozenset()
    words: bool = False
    places: bool = False


NO_LOOPS = LoopHints()

Beside = tuple[tuple[str, str], ...]
"""First names of imports, and the whole name of what each finds, where that is another."""


@dataclass(slots=True)
class ModuleFacts:
    """One file."""

    path: str
    module: str
    is_package: bool
    bindings: dict[str, str] = field(default_factory=dict)
    functions: dict[str, FunctionFacts] = field(default_factory=dict)
    classes: dict[str, ClassFacts] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)
    capture_events: list[Event] = field(default_factory=list)
    loaders: list[Event] = field(default_factory=list)  # of data for training, not pinned
    loops: LoopHints = field(default_factory=lambda: NO_LOOPS)
    groups: dict[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # tables of functions, by qualified name
    instances: dict[str, str] = field(
        default_factory=dict
    )  # module-level objects: qualified name to class
    types: dict[str, Value] = field(default_factory=dict)  # names of types that hold tensors
    patched: tuple[str, ...] = ()  # qualified names that the file assigns to from outside
    set_outside: frozenset[str] = frozenset()  # attributes of other objects that it sets
    inner_imports: set[str] = field(default_factory=set)  # what its functions import
    beside: Beside = ()  # what the file's imports find in its folder, or in one around it

    @property
    def is_test(self) -> bool:
        """Whether the file is one of tests: neither are its models compiled, nor do its loops
        train for long.
        """
        *folders, file = self.module.split(".")
        named = file.startswith("test_") or file.endswith(("_test", "_test_case"))
        return named or file == "conftest" or not {"tests", "test"}.isdisjoint(folders)


@dataclass(frozen=True, slots=True)
class Sinks:
    """The calls and tensor methods the catalogue reports by name."""

    calls: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()

    def has_call(self, name: str) -> bool:
        """Whether some rule lists the qualified callable ``name``."""
        return name in self.calls or (bool(self.prefixes) and name.startswith(self.prefixes))


def imports(module: ModuleFacts, other: ModuleFacts) -> bool:
    """Whether a file imports another one, or something of it."""
    names = (*module.bindings.values(), *module.inner_imports)
    return module is not other and any(
        name == other.module or name.startswith(f"{other.module}.") for name in names
    )


def is_program(module: ModuleFacts) -> bool:
    """Whether a file may join what others define: no test, and no list of a package's names."""
    return not module.is_test and not module.is_package
