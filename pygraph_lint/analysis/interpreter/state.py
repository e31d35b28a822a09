"""The state of one function while it is run abstractly: names, events, calls."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import NamedTuple

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import EVERY, KEYWORDS, Event, Need, Needs, maybe_on_device
from pygraph_lint.analysis.domain.symbols import as_argument, constant
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.program.constructor_options import (
    bound_attributes,
    default_of_key,
    key_of,
)
from pygraph_lint.analysis.program.facts import KEYWORDED, OF_MAPPING, STARRED, Call, FunctionFacts
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import Body, came_out, root_and_path, span_of, walk
from pygraph_lint.analysis.syntax.spans import Span

Key = tuple[str, int, int]
Environment = dict[str, Value]
BUILTINS = frozenset(dir(builtins))

# Evidence that lies in the call itself.
# What is read of tensors: numbers, and sizes that depend on values.
_SHOWN_ARMS = 3
_READ = (
    *("sync.item", "sync.number", "sync.bool"),
    *("shape.unique", "shape.nonzero", "shape.mask-read", "shape.bincount"),
)
_EVIDENT = {
    "host.factory": "the call has no device=, so its result is made on the host",
    "effect.log": "`{subject}` is a method of a logger",
    "effect.lock": "`{subject}` is a lock",
    "effect.generator": "`{subject}` draws from a torch.Generator",
    "effect.module-hook": "only a module has `.{subject}()`",
    "effect.cached-property": "`{subject}` is a functools.cached_property, which takes a lock",
    "effect.context": "a with statement enters `{subject}`",
    "effect.numpy-random": "`{subject}` is numpy's generator",
    "host.numpy-number": "`{subject}` is numpy's, and its value is needed here",
}


class Handlers(NamedTuple):
    """What evaluates each kind of expression, and what runs each kind of statement.

    A statement handler returns True where no path reaches the statement behind it. ``keeps_calls``
    says whether anybody asks for the calls of a run.
    """

    expressions: Mapping[type[ast.expr], Callable[[State, ast.expr], Value]]
    statements: Mapping[type[ast.stmt], Callable[[State, ast.stmt], bool | None]]
    keeps_calls: bool = True


@dataclass(slots=True)
class CallSite:
    """A call with its evaluated arguments; what a starred argument holds stands for one. Of a call
    that ``is_part`` of one, others follow later.
    """

    node: ast.Call
    positional: list[Value]
    named: dict[str, Value]
    is_part: bool = False

    @property
    def first(self) -> Value:
        """The first positional argument; unknown if there is none."""
        return self.positional[0] if self.positional else v.UNKNOWN_VALUE

    @property
    def everything(self) -> list[Value]:
        """All arguments."""
        return [*self.positional, *self.named.values()]

    def get(self, position: int, name: str, default: Value = v.UNKNOWN_VALUE) -> Value:
        """An argument by position or by name."""
        if position < len(self.positional):
            return self.positional[position]
        return self.named.get(name, default)


def _message_of_error(body: list[ast.stmt]) -> ast.stmt | None:
    """The statement that makes the text of an error: ``message = f"..."`` before ``raise``."""
    if len(body) < 2 or not isinstance(body[-1], ast.Raise):
        return None
    made = body[-2]
    return made if isinstance(made, ast.Assign) and isinstance(made.value, ast.JoinedStr) else None


class State:
    """What happens in one function.

    ``env`` maps local names, and ``self.x`` written as such, to values. ``guards`` are conditions
    of the project that what runs now depends on; while ``quiet`` is not zero nothing is recorded.
    ``stops`` are the environments at break and continue of the loop around.
    """

    def __init__(
        self,
        module: Module,
        function: FunctionFacts,
        env: Environment,
        handlers: Handlers,
        self_name: str = "",
    ) -> None:
        self.module = module
        self.function = function
        self.env = env
        self.handlers = handlers
        self._expressions = handlers.expressions
        self.seen: dict[ast.AST, Value] = {}  # the last value of each expression
        self.self_name = self_name
        self.locals: set[str] = set(env)
        self.owner = function.owner
        self.events: dict[Key, Event] = {}
        self.calls: dict[tuple[str, str, str, int, int], Call] = {}
        self.guards: tuple[Need, ...] = ()
        self.quiet = 0
        self.yields: Value | None = None  # of a generator: what it gives
        self.stops: list[Environment] | None = None
        self.origins: dict[str, Key] = {}  # names that hold a tensor just made on the host
        self.sized: dict[str, ast.expr] = {}  # what names hold that depends on values
        self.loads: dict[Key, set[tuple[int, int]]] = {}  # where those names are read
        self.met: dict[Key, set[tuple[int, int]]] = {}  # where they meet tensors of the device
        self.device_context = 0
        self.half = 0
        self.arms: list[tuple[ast.expr, bool]] = []  # tests around what runs now, with outcomes
        self.unusual = 0  # arms of tests that ask for more than which inputs there are
        self.odd = 0  # arms that only run where numbers have gone wrong
        self.last_stores: dict[str, int] = {}  # attributes, and the line of their last store
        self.whole: ast.expr | None = None  # the test of the if statement that is being evaluated
        self.settled: set[ast.Compare] = set()  # of draws, where a probability is not zero
        self.unchanged: frozenset[str] = frozenset()  # parameters that are never bound again
        self.passed: Environment = {}  # what the parameters hold at the start
        self.body = Body(())

    @cached_property
    def may_ask_if_finite(self) -> bool:
        """Whether the file may have a test for NaN or infinite numbers."""
        return any(map(self.module.may_have, ops.FINITE_OPS))

    def ev(self, node: ast.expr | None) -> Value:
        """The value of an expression."""
        if node is None:
            return v.NONE_VALUE
        handler = self._expressions.get(node.__class__)
        value = handler(self, node) if handler is not None else v.UNKNOWN_VALUE
        self.seen[node] = value
        return value

    def ev_quiet(self, node: ast.expr | None) -> Value:
        """The value of an expression that is evaluated for events elsewhere, or never matters."""
        self.quiet += 1
        value = self.ev(node)
        self.quiet -= 1
        return value

    def run(self, body: Iterable[ast.stmt]) -> bool:
        """Run statements in order; True where no path reaches the end."""
        handlers = self.handlers.statements
        body = list(body)
        message = _message_of_error(body)
        for statement in body:
            handler = handlers.get(type(statement))
            self.quiet += statement is message
            ended = handler is not None and handler(self, statement)
            self.quiet -= statement is message
            if ended:
                return True
        return False

    def event(
        self,
        kind: str,
        span: Span,
        subject: str,
        about: Value | None = None,
        **notes: str,
    ) -> None:
        """Record what happens at ``span`` because of the value ``about``."""
        if self.quiet or (self.odd and _tells_users(kind, subject)):
            return
        needs = self.guards
        if self.unusual and _tells_users(kind, subject) and not subject.endswith("_once"):
            needs = (*needs, EVERY)  # it tells of what is not usual, again and again
        if about is not None:
            needs += _rests_on(about)
        why = about.why if about is not None else ""
        why = why or (_EVIDENT[kind].format(subject=subject) if kind in _EVIDENT else "")
        if about is not None and about.is_tensor and about.device == v.ON_HOST:
            notes["lives"] = "host"
            if about.flags & v.FIXED:
                notes["fixed"] = "yes"
        key = (kind, span.line, span.column)
        old = self.events.get(key)
        if old is not None and (len(old.needs) <= len(needs)) and not notes:
            return
        arms = tuple(starmap(came_out, self.arms[-_SHOWN_ARMS:]))
        evidence = (why,) if why else ()
        self.events[key] = Event(kind, span, subject, needs, evidence, tuple(notes.items()), arms)

    def add_note(self, key: Key, name: str, value: str) -> None:
        """Attach a detail to an event that was recorded before; the first one stays."""
        event = self.events.get(key)
        if event is not None and event.note(name) is None:
            self.events[key] = event._replace(notes=(*event.notes, (name, value)))

    def note_needed(self, node: ast.expr) -> None:
        """Note that numbers and sizes which are read in an expression have to be known while it is
        traced: as a graph of one piece, too.
        """
        for part in walk(node) if self.events else ():
            if isinstance(part, ast.Name) and self.env.get(part.id, v.UNKNOWN_VALUE).flags & v.READ:
                part = self.sized.get(part.id, part)
            if isinstance(part, (ast.Call, ast.Subscript)):
                for kind in _READ:
                    self.add_note((kind, part.lineno, part.col_offset), "decides", "yes")

    def note_known(self, nodes: Iterable[ast.expr], *others: str) -> None:
        """Note that what is read by these very expressions has to be known while they are traced: a
        number that is sorted, or a size that says how often a loop runs. ``others`` are kinds of
        events that count, too.
        """
        for node in nodes if self.events else ():
            for kind in (*_READ, "call", *others):
                key = (kind, node.lineno, node.col_offset)
                event = self.events.get(key)
                read = event is not None and event.span == span_of(node)
                if read and (kind != "call" or event.subject.startswith("numpy.")):  # type: ignore[union-attr]
                    self.add_note(key, "decides", "yes")

    def record_call(
        self, how: str, target: str, name: str, node: ast.AST, site: CallSite | None = None
    ) -> None:
        """Record an edge of the call graph."""
        if self.quiet or not self.handlers.keeps_calls:
            return
        span = span_of(node)
        key = (how, target, name, span.line, span.column)
        arguments: tuple[Value | None, ...] = ()
        keywords: tuple[tuple[str, Value], ...] = ()
        unknown: tuple[int | str, ...] = (STARRED, KEYWORDED)
        if site is not None:
            arguments = tuple(map(self._argument, site.positional, _nodes(site)))
            nodes = {item.arg: item.value for item in site.node.keywords}
            named = (
                (keyword, self._argument(value, nodes.get(keyword)))
                for keyword, value in site.named.items()
            )
            keywords = tuple((keyword, kept) for keyword, kept in named if kept is not None)
            unknown = _unknown_arguments(site, arguments, {keyword for keyword, _ in keywords})
            unknown += self._handed_on(site)
            while arguments and arguments[-1] is None:
                arguments = arguments[:-1]
        needs = (*self.guards, EVERY) if self.odd else self.guards
        self.calls[key] = Call(how, target, name, span, arguments, keywords, needs, unknown)

    def _argument(self, value: Value, node: ast.expr | None) -> Value | None:
        """What is kept of an argument; of one that is an option here, which one it is."""
        kept = as_argument(value)
        if kept is not None and (kept.needs or kept.const is not None):
            return kept
        if isinstance(node, ast.Name) and node.id in self.unchanged:
            option = Need("param", self.function.name, node.id)
        elif isinstance(node, ast.Attribute) and self._stored.get(self._own(node)):
            option = Need("param", self.function.name, self._stored[node.attr])
        elif isinstance(node, ast.Attribute) and self.is_option(node):
            option = Need("set", self.owner, node.attr)
        elif node is None or not (kept is None or kept.kinds == v.OTHER):
            return kept
        else:
            default = default_of_key(node)
            if default is not None:
                return constant(default.value)._replace(flags=0)
            option = Need("named", "", key_of(node))  # `flag=config.flag`
        return (v.UNKNOWN_VALUE if kept is None else kept)._replace(needs=(option,))

    def _handed_on(self, site: CallSite) -> tuple[str, ...]:
        """That a call passes on the keywords that its function gets, or those of a mapping, and
        nothing else unknown.
        """
        starred = [item.value for item in site.node.keywords if item.arg is None]
        if len(starred) != 1 or any(isinstance(each, ast.Starred) for each in site.node.args):
            return ()
        keywords = starred[0]
        held = self.env.get(keywords.id) if isinstance(keywords, ast.Name) else None
        need = held.needs[0] if held is not None and held.needs else None
        own = need is not None and (need.kind, need.name) == ("param", KEYWORDS)
        return (f"{KEYWORDS}{need.owner}" if need is not None and own else OF_MAPPING,)

    def is_option(self, node: ast.Attribute) -> bool:
        """Whether an attribute is one of the object, which its constructor or others set."""
        return self.is_self(node.value) and node.attr not in self._stored

    @cached_property
    def _stored(self) -> dict[str, str]:
        """The attributes that the function binds, with the parameter that one keeps as it is; empty
        for others.
        """
        found: dict[str, str] = {}
        for target, value in bound_attributes(ast.Module(list(self.body.statements), [])):
            name = value.id if isinstance(value, ast.Name) and self._own(target) else ""
            unchanged = name in self.unchanged and target.attr not in found
            found[target.attr] = name if unchanged else ""
        return found

    def _own(self, node: ast.Attribute) -> str:
        """The name of an attribute of the object; empty for those of others."""
        return node.attr if self.is_self(node.value) else ""

    def mention(self, target: str, node: ast.AST) -> None:
        """A function named without being called may be called by whoever gets it."""
        if not target.startswith(("torch.", "numpy.", "builtins.")):
            self.record_call("mention", target, "", node)

    def qualified(self, node: ast.expr) -> str | None:
        """The qualified name of a dotted expression whose root is no variable of this function."""
        name, path = root_and_path(node)
        if not isinstance(name, ast.Name):
            return None
        if name.id in self.env:
            known = self.env[name.id]
            if known.kinds != v.CALLABLE or known.item is not None or len(v.classes(known)) != 1:
                return None
            return f"{known.cls}{path}"
        if name.id in self.locals:
            return None
        if self.module.bindings.get(name.id) is None and name.id in BUILTINS and not path:
            return "builtins." + name.id
        return self.module.names.resolve(node)

    def is_self(self, node: ast.expr) -> bool:
        """Whether an expression is the object whose method this is."""
        return isinstance(node, ast.Name) and node.id == self.self_name and bool(self.self_name)

    def place(self, node: ast.expr) -> str | None:
        """The key of ``env`` an expression is kept under: a name or ``self.x``."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.env else None
        if not isinstance(node, ast.Attribute):
            return None
        return f"self.{node.attr}" if self.is_self(node.value) else None

    def made_with(self, value: Value) -> str:
        """The constructor's parameter that an attribute holds as passed; empty for others."""
        need = value.needs[0] if value.flags & v.SYMBOL and value.needs else None
        own = need is not None and (need.kind, need.owner) == ("param", f"{self.owner}.__init__")
        return need.name if need is not None and own and "|" not in need.name else ""

    def restore(self, saved: list[tuple[str, Value | None]]) -> None:
        """Put back what a condition narrowed or a comprehension bound."""
        for name, value in reversed(saved):
            if value is None:
                self.env.pop(name, None)
            else:
                self.env[name] = value


def _rests_on(value: Value) -> Needs:
    """What has to be proven of a value: that it is a tensor, and not on the host."""
    if value.device_of is None or value.device == v.ON_HOST:
        return value.needs
    return (*value.needs, maybe_on_device(value.device_of))


def _tells_users(kind: str, subject: str) -> bool:
    """Whether a call only says something: in an arm, mostly that something is not as it should."""
    said = subject.removeprefix("builtins.").startswith(("print", "warnings.", "logging."))
    return kind == "effect.log" or (kind == "call" and said)


def _nodes(site: CallSite) -> Sequence[ast.expr | None]:
    """The expressions of a call's positional arguments, where each is written."""
    written = site.node.args
    starred = site.is_part or any(isinstance(each, ast.Starred) for each in written)
    unclear = starred or len(written) != len(site.positional)
    return [None] * len(site.positional) if unclear else written


def _unknown_arguments(
    site: CallSite, arguments: tuple[Value | None, ...], known: set[str]
) -> tuple[int | str, ...]:
    """The places and keywords of arguments of which nothing is known; ``known`` are keywords of the
    others.
    """
    keywords = [keyword.arg for keyword in site.node.keywords]
    starred = any(isinstance(each, ast.Starred) for each in site.node.args)
    if site.is_part or None in keywords:
        return (STARRED, KEYWORDED)
    places: list[int | str] = [place for place, value in enumerate(arguments) if value is None]
    if starred:
        places = [STARRED]
    named = [name for name in keywords if name is not None]
    return (*places, *(name for name in named if name not in known))
