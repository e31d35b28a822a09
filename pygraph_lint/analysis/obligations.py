"""What the analysis of one file assumes about another place.

An event or a value that rests on an assumption carries it as an obligation; it counts once linking
has discharged it (``proof.py``). Each class here is one kind of assumption, named in qualified
names.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

from pygraph_lint.analysis.literals import Tested

_MAX_PATH = 6

# Ways into a value: "0" is an element, ".x" an attribute, RESULT what calling it gives.
Path = tuple[str, ...]
RESULT = "()"

ObligationT = TypeVar("ObligationT", bound="OfValue")


@dataclass(frozen=True, slots=True)
class Obligation:
    """Something another function, class or file has to confirm."""


@dataclass(frozen=True, slots=True)
class IsModule(Obligation):
    """A class is an ``nn.Module``."""

    cls: str


@dataclass(frozen=True, slots=True)
class CanReturn(Obligation):
    """A predicate can give ``outcome``."""

    function: str
    outcome: bool


@dataclass(frozen=True, slots=True)
class BreaksGraph(Obligation):
    """A memoised function does something that breaks the graph, each time it is traced."""

    function: str


@dataclass(frozen=True, slots=True)
class EndsGraph(Obligation):
    """The graph ends in a method of one of some classes, with commas between them."""

    classes: str
    method: str


@dataclass(frozen=True, slots=True)
class CalledAtImport(Obligation):
    """Importing ``module`` has called a memoised function."""

    function: str
    module: str


@dataclass(frozen=True, slots=True)
class AnyOf(Obligation):
    """All of one of several groups of assumptions hold."""

    choices: tuple[tuple[Obligation, ...], ...]


@dataclass(frozen=True, slots=True)
class NoneOf(Obligation):
    """Of no group of assumptions all hold."""

    choices: tuple[tuple[Obligation, ...], ...]


@dataclass(frozen=True, slots=True)
class CallMayPass(Obligation):
    """At some call of ``function`` in a region, or at the one that ``site`` names, all tests of
    parameters may come out as said.
    """

    function: str
    tests: tuple[Tested, ...]
    site: str = ""


@dataclass(frozen=True, slots=True)
class AttributeIsGenerator(Obligation):
    """An attribute of a class is a ``torch.Generator``."""

    cls: str
    attribute: str


@dataclass(frozen=True, slots=True)
class Presumed(Obligation):
    """A tensor of unknown origin is on the device, as in training loops."""


@dataclass(frozen=True, slots=True)
class ParameterIsOpen(Obligation):
    """At some call of a function that a training loop makes nothing is known of an argument; with
    no ``parameter``: the project does not have the function.
    """

    function: str
    parameter: str


@dataclass(frozen=True, slots=True)
class ChecksArguments(Obligation):
    """No file of the project turns off what torch.distributions check."""


@dataclass(frozen=True, slots=True)
class OfValue(Obligation):
    """Some value, or the part of it that ``path`` leads to, is a tensor; with ``at_home``: one on
    the host.
    """

    path: Path
    at_home: bool = field(default=False, kw_only=True)

    def along(self: ObligationT, path: Path) -> ObligationT | None:
        """The same of a part of the value; None for a part that lies too deep."""
        if len(self.path) > _MAX_PATH or len(path) > _MAX_PATH:
            return None
        return replace(self, path=(*self.path, *path))


@dataclass(frozen=True, slots=True)
class ParameterIsTensor(OfValue):
    """A parameter is a tensor at some call in a region, or at the one that ``site`` names; with
    ``only``: is nothing but one.
    """

    function: str
    parameter: str
    only: bool = False
    site: str = ""


@dataclass(frozen=True, slots=True)
class ReturnsTensor(OfValue):
    """A function of the project returns a tensor. ``function`` may be several names, with commas,
    or ``super:Class.method``: the next method behind ``Class``. ``site`` names the call that is
    meant; without one it is any.
    """

    function: str
    site: str = ""


@dataclass(frozen=True, slots=True)
class AttributeIsTensor(OfValue):
    """An attribute of a class, or what a method of that name returns, is a tensor."""

    cls: str
    attribute: str


@dataclass(frozen=True, slots=True)
class TypeIsTensor(OfValue):
    """What a type is called in another file is an alias for a tensor."""

    name: str
