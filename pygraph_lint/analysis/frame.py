"""The state of one function while it is run abstractly: names, events, calls."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import as_argument
from pygraph_lint.analysis.events import Event, Need, Span
from pygraph_lint.analysis.model import Call, FunctionFacts
from pygraph_lint.analysis.nodes import dotted, span_of
from pygraph_lint.analysis.values import Value

if TYPE_CHECKING:
    from pygraph_lint.analysis.context import ModuleContext

Key = tuple[str, int, int]
BUILTINS = frozenset(dir(builtins))

# Evidence that lies in the call itself.
_EVIDENT = {
    "host.factory": "the call has no device=, so its result is made on the host",
    "host.scalar-tensor": "the number is on the host",
    "host.data-tensor": "the data is on the host",
    "effect.log": "`{subject}` is a method of a logger",
    "effect.lock": "`{subject}` is a lock",
    "effect.module-hook": "only a module has `.{subject}()`",
    "effect.parameter-made": "`{subject}` makes parameters",
    "effect.cached-property": "`{subject}` is a functools.cached_property, which takes a lock",
    "effect.context": "a with statement enters `{subject}`",
    "effect.numpy-random": "`{subject}` is numpy's generator",
    "host.numpy-number": "`{subject}` is numpy's, and its value is needed here",
    "call": "the name resolves to `{subject}`",
}


class Frame:
    """What happens in one function.

    ``env`` maps local names, and ``self.x`` written as such, to values. ``guards`` are conditions
    of the project that what runs now depends on; while ``quiet`` is not zero nothing is recorded.
    """

    def __init__(
        self, context: ModuleContext, function: FunctionFacts, env: dict[str, Value]
    ) -> None:
        self.context = context
        self.function = function
        self.env = env
        self.locals: set[str] = set(env)
        self.self_name = ""
        self.owner = function.owner
        self.events: dict[Key, Event] = {}
        self.calls: dict[tuple[str, str, str, int, int], Call] = {}
        self.guards: tuple[Need, ...] = ()
        self.quiet = 0
        self.origins: dict[str, Key] = {}  # names that hold a tensor just made on the host
        self.loads: dict[Key, set[tuple[int, int]]] = {}  # where those names are read
        self.met: dict[Key, set[tuple[int, int]]] = {}  # where they meet a tensor of the device
        self.device_context = 0
        self.half = 0
        self.whole: ast.expr | None = None  # the test of the if statement that is being evaluated
        self.settled: set[ast.Compare] = set()

    def event(
        self,
        kind: str,
        span: Span,
        subject: str,
        about: Value | None = None,
        **notes: str,
    ) -> None:
        """Record what happens at ``span`` because of the value ``about``."""
        if self.quiet:
            return
        needs = self.guards
        evidence: tuple[str, ...] = ()
        if about is not None:
            if about.needs:
                needs = needs + about.needs
            if about.why:
                evidence = (about.why,)
        if not evidence and kind in _EVIDENT:
            evidence = (_EVIDENT[kind].format(subject=subject),)
        key = (kind, span.line, span.column)
        old = self.events.get(key)
        if old is not None and (len(old.needs) <= len(needs)) and not notes:
            return
        self.events[key] = Event(kind, span, subject, needs, evidence, tuple(notes.items()))

    def add_note(self, key: Key, name: str, value: str) -> None:
        """Attach a detail to an event that was recorded before; the first one stays."""
        event = self.events.get(key)
        if event is not None and event.note(name) is None:
            self.events[key] = event._replace(notes=(*event.notes, (name, value)))

    def record_call(
        self,
        how: str,
        target: str,
        name: str,
        node: ast.AST,
        positional: list[Value] | None = None,
        named: dict[str, Value] | None = None,
    ) -> None:
        """Record an edge of the call graph."""
        if self.quiet:
            return
        span = span_of(node)
        key = (how, target, name, span.line, span.column)
        arguments = tuple(as_argument(value) for value in positional or ())
        while arguments and arguments[-1] is None:
            arguments = arguments[:-1]
        keywords = tuple(
            (key_, kept)
            for key_, value in (named or {}).items()
            if (kept := as_argument(value)) is not None
        )
        self.calls[key] = Call(how, target, name, span, arguments, keywords, self.guards)

    def qualified(self, node: ast.expr) -> str | None:
        """The qualified name of a dotted expression whose root is no local of this function."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.env:
            known = self.env[node.id]
            if known.kinds != v.CALLABLE or not known.cls or "," in known.cls:
                return None
            root: str | None = known.cls
        elif node.id in self.locals:
            return None
        else:
            root = self.context.bindings.get(node.id)
            if root is None:
                if node.id in BUILTINS and not attributes:
                    return "builtins." + node.id
                return None
        if not attributes:
            return root
        attributes.append(root)  # type: ignore[arg-type]
        return ".".join(reversed(attributes))

    def mention(self, target: str, node: ast.AST) -> None:
        """A function named without being called may be called by whoever gets it."""
        if not target.startswith(("torch.", "numpy.", "builtins.")):
            self.record_call("mention", target, "", node)

    def meet(self, left_node: ast.expr, left: Value, right_node: ast.expr, right: Value) -> None:
        """Note, for a tensor made on the host, the device expression of the tensor it meets."""
        if left.is_tensor and right.is_tensor and left.device != right.device:
            self._meet(left_node, left, right_node, right)
            self._meet(right_node, right, left_node, left)

    def _meet(self, host_node: ast.expr, host: Value, device_node: ast.expr, device: Value) -> None:
        if host.device != v.ON_HOST or device.device != v.ON_DEVICE:
            return
        text = dotted(device_node)
        key = None
        if isinstance(host_node, ast.Name):
            key = self.origins.get(host_node.id)
        elif isinstance(host_node, ast.Call):
            for kind in ("host.factory", "host.scalar-tensor", "host.data-tensor"):
                if (kind, host_node.lineno, host_node.col_offset) in self.events:
                    key = (kind, host_node.lineno, host_node.col_offset)
        if key is None:
            return
        self.met.setdefault(key, set()).add((host_node.lineno, host_node.col_offset))
        if text is not None:
            self.add_note(key, "meets", f"{text}.device")

    def note_uses(self) -> None:
        """Mark the host tensors that nothing but tensors of the device ever sees."""
        for key, places in self.met.items():
            if self.loads.get(key, places) <= places:
                self.add_note(key, "uses", "device")

    def place(self, node: ast.expr) -> str | None:
        """The key of ``env`` an expression is kept under: a name or ``self.x``."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.env else None
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return None
        return f"self.{node.attr}" if node.value.id == self.self_name and self.self_name else None

    def restore(self, saved: list[tuple[str, Value | None]]) -> None:
        """Undo what ``narrow`` did."""
        for name, value in reversed(saved):
            if value is None:
                self.env.pop(name, None)
            else:
                self.env[name] = value

    def formatted(self, value: Value, node: ast.AST) -> None:
        """A value turned into text."""
        for part in (value, *(value.items or ())):
            if part.is_tensor and not part.needs and not part.kinds & v.UNKNOWN:
                self.event("sync.format", span_of(node), "text", part)
                return

    def ev(self, node: ast.expr | None) -> Value:
        """The value of an expression: provided by Expressions."""
        raise AssertionError("mixed in by Expressions")

    def ev_quiet(self, node: ast.expr) -> Value:
        """The value of an expression that is evaluated for events elsewhere."""
        self.quiet += 1
        value = self.ev(node)
        self.quiet -= 1
        return value
