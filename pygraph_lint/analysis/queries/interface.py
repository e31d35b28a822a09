"""The types of the query interface: what is known of a value or of the project, and what a file
can be asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, Flag, auto
from typing import Protocol

from pygraph_lint.analysis.control_flow.reaching_definitions import FileDefinitions, Scope
from pygraph_lint.analysis.control_flow.statement_graph import Definition
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.syntax.spans import Span


class Type(Flag):
    """What an expression may evaluate to."""

    NOTHING = 0
    TENSOR = v.TENSOR
    NUMBER = v.NUMBER  # a Python number, a bool among them
    NONE = v.NONE
    TEXT = v.TEXT
    SEQUENCE = v.SEQUENCE
    MAPPING = v.MAPPING
    OBJECT = v.INSTANCE  # of some class
    CALLABLE = v.CALLABLE
    ARRAY = v.NUMPY  # of numpy
    DEVICE = v.DEVICE
    DTYPE = v.DTYPE
    OTHER = v.OTHER
    ANYTHING = v.UNKNOWN - 1  # all of these


class Device(Enum):
    """Where a tensor lives."""

    UNKNOWN = auto()
    MODEL = auto()  # with the model's parameters and inputs
    HOST = auto()


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an expression's value. ``rank`` is None and ``dtype`` (``bool``, ``int``,
    ``float``, ``complex``) empty where it is not known; ``elements`` are those of a tuple or list
    of known length. ``believed`` names what is only believed to be a tensor: because of how it is
    used, or because some call path passes one.
    """

    types: Type = Type.ANYTHING
    rank: int | None = None
    dtype: str = ""
    device: Device = Device.UNKNOWN
    elements: tuple[Known, ...] | None = None
    evidence: str = ""
    believed: frozenset[str] = frozenset()

    def may_be(self, types: Type) -> bool:
        """Whether it is one of ``types`` on some run."""
        return bool(self.types & types)

    def must_be(self, types: Type) -> bool:
        """Whether it is one of ``types`` on every run."""
        return not self.types & ~types


UNKNOWN = Known()


@dataclass(frozen=True, slots=True)
class ProjectView:
    """What the project as a whole says about one file.

    ``patched`` are the qualified names that some file assigns to from outside,
    ``subclassed`` the qualified classes with a subclass anywhere, ``tensors`` the assumptions about
    parameters, attributes and results that some call path confirms. ``closed`` says that nothing
    outside the checked files subclasses, replaces, inspects, scripts or exports what is in them,
    ``left_out`` where its code in regions calls what torch.compiler.disable keeps out of compiled
    code, ``called`` the qualified names of its functions that code of other files in regions calls,
    and with them, as ``function(size)``, the parameters with a default that most calls in regions
    pass, ``wrapping`` the decorators in it that put a function of their own around what they are
    given, ``waiting`` the names among `to` and `cuda` of which a class of the project, no module,
    has a method without the parameter `non_blocking`.
    """

    module: str = "module"
    is_package: bool = False
    patched: frozenset[str] = frozenset()
    subclassed: frozenset[str] = frozenset()
    tensors: frozenset[Need] = frozenset()
    closed: bool = False
    left_out: frozenset[Span] = frozenset()
    called: frozenset[str] = frozenset()
    wrapping: frozenset[str] = frozenset()
    waiting: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The same text for the same view, in every process."""
        parts = (self.patched, self.subclassed, self.tensors, self.left_out)
        names = (sorted(part) for part in (*parts, self.called, self.wrapping, self.waiting))
        return repr((self.module, self.is_package, self.closed, *names))


_NUMBER_TYPES = {bool: "bool", int: "int", float: "float", complex: "complex"}
_DEVICES = {
    v.ANYWHERE: Device.UNKNOWN,
    v.ON_DEVICE: Device.MODEL,
    v.ON_HOST: Device.HOST,
}


def of_value(value: Value, confirmed: frozenset[Need]) -> Known:
    """What an abstract value says. One that rests on assumptions says nothing where one of them is
    not ``confirmed``, and else names them as believed.
    """
    kinds = value.kinds
    if value.is_doubtful_number:
        # Computed from what is a number by its annotation, unless a call path passes a tensor.
        return UNKNOWN if value.flags & v.SYMBOL else Known(Type.NUMBER)
    if not all(_holds(need, confirmed) for need in value.needs):
        return UNKNOWN
    if value.needs:
        kinds &= ~v.UNKNOWN
    types = Type.ANYTHING if kinds & v.UNKNOWN or not kinds else Type(kinds)
    elements = None
    if value.items is not None:
        elements = tuple(of_value(item, confirmed) for item in value.items)
    dtype = value.dtype
    if not dtype and kinds == v.NUMBER:
        dtype = _NUMBER_TYPES.get(type(value.const), "")
    rank = value.ndim if value.ndim >= 0 else None
    believed = frozenset(text for need in value.needs for text in _named(need))
    return Known(types, rank, dtype, _DEVICES[value.device], elements, value.why, believed)


def _holds(need: Need, confirmed: frozenset[Need]) -> bool:
    if need.kind == "any":
        return any(all(_holds(each, confirmed) for each in needs) for needs in need.choices)
    return need._replace(site="") in confirmed and need.kind != "given"


def _named(need: Need) -> Iterator[str]:
    """What an assumption is about, in the words of the code."""
    name = need.name.partition("|")[0]
    if need.kind == "any":
        for needs in need.choices:
            for each in needs:
                yield from _named(each)
    elif need.kind == "return":
        called = (need.owner or need.name.replace("|", "")).rpartition(".")[2]
        yield f"{called.removesuffix('()')}()"
    else:
        yield name if need.kind == "param" else f"self.{name}"


class Queries(Protocol):
    """Answers questions about one file; see ``FileQueries``."""

    view: ProjectView
    definitions: FileDefinitions
    believes: bool

    def known(self, node: ast.expr) -> Known: ...

    def is_tensor(self, node: ast.expr) -> bool: ...

    def callee(self, node: ast.AST) -> str | None: ...

    def qualified(self, node: ast.expr) -> str | None: ...

    def uses(self, definition: Definition) -> list[ast.Name]: ...

    def runs_before(self, first: ast.AST, second: ast.AST) -> bool: ...

    def parent(self, node: ast.AST) -> ast.AST | None: ...

    def path(self, node: ast.AST) -> Iterator[ast.AST]: ...

    def scope(self, node: ast.AST) -> Scope: ...
