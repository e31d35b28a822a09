"""What the analysis can see happen in a line of code: the vocabulary rules are written in.

An event is a fact about the code, not a judgement: rule pages in ``rules/`` say which events they
report, with which message and which consequences; ``rules/events.toml`` says what each kind means.
"""

from __future__ import annotations

from typing import NamedTuple

from pygraph_lint.analysis.syntax.literal_tests import ParameterTest, TestKind
from pygraph_lint.analysis.syntax.spans import Span


class Need(NamedTuple):
    """A proof obligation: what another function or file has to confirm before an event counts.

    ``owner`` is the qualified name of the function or class, ``name`` the parameter, the attribute
    or the module (empty for ``return``). ``site`` is the call whose result is meant
    (``call_site``); without one, of any call. ``kind`` says what has to be so:

    ``param``      a parameter is a tensor at some call in a region
    ``given``      it is nothing but a tensor at some call
    ``array``      it is a value that numpy made
    ``mask``       it is a boolean tensor with dimensions
    ``open``       nothing is known of an argument at some call in a training loop
    ``return``     a function of the project returns a tensor
    ``attr``       an attribute of a class holds a tensor
    ``type``       what the name of a type means is a tensor
    ``host``       what its one choice names is a tensor on the host
    ``away``       some call passes a tensor that is not on the host, or what its one choice says
                   is not so
    ``presumed``   a tensor of unknown origin is on the device
    ``module``     a class is a module
    ``generator``  an attribute of a class, or a parameter, is a torch.Generator
    ``true``, ``false``  a predicate can give that
    ``may``        at some call all ``tests`` of parameters may come out as they have to
    ``set``        all ``tests`` of attributes of a class may come out so in usual use
    ``named``      what some object of settings keeps by a name
    ``called``     some call in a region runs a function
    ``every``      whatever gets tensors is asked for: nothing shows that it happens in usual use
    ``operators``  objects of a class have operators that are no tensor's: of that name, if there is
                   one
    ``ends``       the graph ends in a method, of what its one choice names where there is one
    ``alone``      torch.compile compiles the constructor of a module by itself
    ``keeps``      a cached function ends the graph
    ``checks``     distributions check their arguments; with a name: and no class of the project
                   has a method of that name
    ``any``        all of one of the ``choices`` hold
    ``not``        all of none of them do
    """

    kind: str
    owner: str
    name: str
    choices: tuple[tuple[Need, ...], ...] = ()
    site: str = ""
    tests: tuple[ParameterTest, ...] = ()


Needs = tuple[Need, ...]
KEYWORDS = "**"  # as a parameter: keywords that no parameter is named by
PLACES = "*"  # as a parameter: arguments behind the last parameter
NEVER = Need("not", "", "", ((),))  # what cannot be
EVERY = Need("every", "", "")  # what nothing shows to happen in usual use
# Needs of calls: what a predicate has to give, what an option has to be, that all is asked for.
CONDITIONS = ("true", "false", "set", "every")
_MAX_CHOICES = 8


def on_host(source: Need) -> Need:
    """That the value which ``source`` names is a tensor on the host."""
    return Need("host", "", "", ((source,),))


def not_on_host(source: Need) -> Need:
    """That it is none."""
    return Need("not", "", "", ((on_host(source),),))


def maybe_on_device(source: Need) -> Need:
    """That the value which ``source`` names is not known to be on the host: of a parameter, what
    calls pass for it.
    """
    if source.kind == "param":
        return Need("away", source.owner, source.name.partition("|")[0])
    return Need("away", "", "", ((on_host(source),),))


def call_site(function: str, start: int, span: Span) -> str:
    """The name of a call in a function of the project that starts on the line ``start``."""
    first, last = span.line - start, span.end_line - start
    return f"{function}@{first}:{span.column}:{last}:{span.end_column}"


def of_any_call(needs: Needs) -> Needs:
    """The same of a function's result, whoever calls it."""
    if not any(need.site for need in needs):
        return needs
    return tuple(need._replace(site="") for need in needs)


def any_of(a: Needs, b: Needs) -> Needs:
    """What holds where all of ``a`` or all of ``b`` does; of many choices the simplest ones."""
    if not a or not b:
        return ()
    choices = sorted({*_choices(a), *_choices(b)}, key=lambda needs: (len(needs), repr(needs)))
    if len(choices) == 1:
        return choices[0]
    return (Need("any", "", "", tuple(choices[:_MAX_CHOICES])),)


def is_for_default(needs: Needs) -> bool:
    """Whether code only runs where an option is None, or is not."""
    tests = (each.test for need in needs for each in need.tests)
    return any(test.how is TestKind.NONE for test in tests)


def annotated_numbers(needs: Needs) -> bool:
    """Whether needs only say that what is annotated as a number is a tensor."""
    return bool(needs) and all(
        need.kind == "given" or (need.kind == "any" and all(map(annotated_numbers, need.choices)))
        for need in needs
    )


def _choices(needs: Needs) -> tuple[Needs, ...]:
    return needs[0].choices if len(needs) == 1 and needs[0].kind == "any" else (needs,)


class Event(NamedTuple):
    """One fact about one place.

    ``subject`` is what the message names: the qualified callee, the method, or a short piece of
    source. ``needs`` must all be confirmed when the project is linked. ``evidence`` says, in
    sentences, why the values involved are believed to be what they are. ``notes`` are details for
    rewrites, as name-value pairs. ``arms`` are the conditions of the function's ``if`` statements
    under which it happens, as source text.
    """

    kind: str
    span: Span
    subject: str
    needs: tuple[Need, ...] = ()
    evidence: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    arms: tuple[str, ...] = ()

    @property
    def lives_on_host(self) -> bool:
        """Whether the tensor whose value is needed here lives on the host."""
        needed = not self.kind.startswith("host.") and self.kind != "branch.random-skip"
        return needed and self.note("lives") == "host"

    @property
    def waits(self) -> bool:
        """Whether the host may wait for the device here."""
        return not self.lives_on_host and self.note("waits") != "no"

    def note(self, name: str) -> str | None:
        """The note called ``name``, or None."""
        for key, value in self.notes:
            if key == name:
                return value
        return None
