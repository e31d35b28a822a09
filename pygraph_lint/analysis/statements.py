"""Statements: environments flow through branches and loops."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import extend, is_symbol
from pygraph_lint.analysis.model import FunctionFacts, Root
from pygraph_lint.analysis.nodes import dotted, source_of, span_of
from pygraph_lint.analysis.structures import Structures
from pygraph_lint.analysis.values import Value

_MADE = ("host.factory", "host.scalar-tensor", "host.data-tensor")
_ROUNDS = 3


class Interpreter(Structures):
    """Runs the body of one function."""

    stops: list[dict[str, Value]] | None = (
        None  # environments at break / continue of the loop around
    )

    def run(self, body: list[ast.stmt]) -> bool:
        """Run statements in order; True where no path reaches the end."""
        for statement in body:
            handler = _STATEMENTS.get(type(statement))
            if handler is not None and handler(self, statement):
                return True
        return False

    # -- assignment

    def s_assign(self, node: ast.Assign) -> None:
        value = self.ev(node.value)
        for target in node.targets:
            self.assign(target, value, node.value)

    def s_annotated(self, node: ast.AnnAssign) -> None:
        value = (
            self.ev(node.value)
            if node.value is not None
            else self.context.annotated(node.annotation, "")
        )
        if node.value is not None and value.kinds & v.UNKNOWN and not value.is_tensor:
            declared = self.context.annotated(node.annotation, source_of(node.target))
            if declared.kinds != v.UNKNOWN:
                value = declared
        self.assign(node.target, value, node.value)

    def s_augmented(self, node: ast.AugAssign) -> None:
        target = node.target
        load: ast.expr
        if isinstance(target, ast.Name):
            load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        elif isinstance(target, ast.Attribute):
            load = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
        else:
            load = ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
        old = self.ev(load)
        added = self.ev(node.value)
        self.meet(load, old, node.value, added)
        value = self.arithmetic(type(node.op), old, added, node)
        if old.is_tensor and not added.is_tensor:
            value = value._replace(dtype=old.dtype)
        if isinstance(target, ast.Subscript):
            return
        self.assign(target, value, None)

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """Bind a target to a value."""
        if isinstance(target, ast.Name):
            self.env[target.id] = (
                value if value.items is None and value.item is None else v.shallow(value)
            )
            self.origins.pop(target.id, None)
            if isinstance(source, ast.Call):
                for kind in _MADE:
                    key = (kind, source.lineno, source.col_offset)
                    if key in self.events:
                        self.origins[target.id] = key
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, value)
        elif isinstance(target, ast.Attribute):
            self.assign_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self.store_subscript(target, value)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, Value(v.SEQUENCE, item=value), None)

    def unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        """``a, b = value``."""
        count = len(target.elts)
        starred = any(isinstance(element, ast.Starred) for element in target.elts)
        if value.items is not None and len(value.items) == count and not starred:
            for element, part in zip(target.elts, value.items):
                self.assign(element, part, None)
            return
        for index, element in enumerate(target.elts):
            if isinstance(element, ast.Starred):
                self.assign(element.value, Value(v.SEQUENCE, item=v.element(value)), None)
            elif is_symbol(value) and value.needs:
                self.assign(element, extend(value, str(index)), None)
            else:
                self.assign(element, v.element(value), None)

    def assign_attribute(self, target: ast.Attribute, value: Value) -> None:
        """``self.x = value``, ``t.requires_grad = ...``, ``t.data = ...``."""
        if (
            isinstance(target.value, ast.Name)
            and target.value.id == self.self_name
            and self.self_name
        ):
            held = self.context.class_attribute(self.owner, target.attr)
            if held is not None and held.flags & v.BUFFER and held.is_tensor and value.is_tensor:
                self.event("effect.buffer-rebound", span_of(target), f"self.{target.attr}", held)
            elif value.is_tensor and not value.needs and not value.kinds & v.UNKNOWN:
                self.event("effect.kept-output", span_of(target), f"self.{target.attr}", value)
            self.env["self." + target.attr] = value
            self.context.set_attribute(self.owner, target.attr, self.held(value))
            return
        base = self.ev(target.value)
        if base.is_tensor and (
            not base.flags & v.SYMBOL or target.attr in ("data", "requires_grad", "grad")
        ):
            if target.attr == "requires_grad":
                self.event(
                    "effect.requires-grad", span_of(target), f"{source_of(target)} = ...", base
                )
            elif target.attr == "data":
                self.event(
                    "effect.data-assign", span_of(target), f"{source_of(target)} = ...", base
                )

    def held(self, value: Value) -> Value:
        """A value as an attribute keeps it: a host tensor that is no buffer stays behind when the
        model moves.
        """
        if (
            value.is_tensor
            and not value.needs
            and not value.flags & v.BUFFER
            and value.device == v.ON_HOST
        ):
            return value._replace(
                flags=value.flags | v.PLAIN,
                why="a plain tensor attribute, neither parameter nor buffer",
            )
        return v.shallow(value, 2)

    # -- branches

    def s_if(self, node: ast.If) -> bool:
        only_raises = (
            not node.orelse and isinstance(node.body[-1], ast.Raise) and len(node.body) <= 2
        )
        before = set(self.events) if not self.quiet else set()
        self.whole = node.test
        static = self.truth(node.test, "branch.raise" if only_raises else "branch.if")
        self.whole = None
        if static is True:
            return self.run(node.body)
        if static is False:
            return self.run(node.orelse)
        tests = [key for key in self.events if key not in before and key[0].startswith("branch.")]
        saved_guards = self.guards
        start = self.env
        self.env = dict(start)
        self.narrow(node.test, True)
        self.guard(node.test, True)
        error = isinstance(node.body[-1], ast.Raise)
        half = self.tests_half(node.test)
        self.quiet += error
        self.half += half
        ended = self.run(node.body)
        self.half -= half
        self.quiet -= error
        then = self.env
        self.guards = saved_guards
        self.env = dict(start)
        self.narrow(node.test, False)
        self.guard(node.test, False)
        error = bool(node.orelse) and isinstance(node.orelse[-1], ast.Raise)
        self.quiet += error
        other_ended = self.run(node.orelse)
        self.quiet -= error
        self.guards = saved_guards
        if tests:
            self.note_assigned(tests, start, then, self.env)
        if ended and other_ended:
            return True
        if ended:
            return False
        if other_ended:
            self.env = then
            return False
        self.env = join_environments(then, self.env)
        return False

    def note_assigned(
        self,
        tests: list[tuple[str, int, int]],
        start: dict[str, Value],
        then: dict[str, Value],
        other: dict[str, Value],
    ) -> None:
        """Which names the arms of a tensor branch give tensors to."""
        names = []
        for name, value in then.items():
            if value is not start.get(name) and value.is_tensor and not value.kinds & v.UNKNOWN:
                opposite = other.get(name)
                if opposite is not None and opposite.is_tensor and not opposite.kinds & v.UNKNOWN:
                    names.append(name)
        if names:
            for key in tests:
                self.add_note(key, "tensors", ",".join(sorted(names)))

    def s_while(self, node: ast.While) -> bool:
        return self.loop(
            node.body, node.orelse, lambda: self.truth(node.test, "branch.while") is False
        )

    def s_for(self, node: ast.For | ast.AsyncFor) -> bool:
        iterated = self.ev(node.iter)

        def bind() -> bool:
            self.assign(node.target, v.element(iterated), None)
            return iterated.items == ()

        return self.loop(node.body, node.orelse, bind)

    def loop(self, body: list[ast.stmt], orelse: list[ast.stmt], enter: Callable[[], bool]) -> bool:
        """Run a loop's body until the environment settles, at most a few times."""
        outer_stops = self.stops
        for _ in range(_ROUNDS):
            start = self.env
            self.env = dict(start)
            self.stops = []
            if enter():
                self.env = start
                break
            joined = start
            if not self.run(body):
                joined = join_environments(joined, self.env)
            for stopped in self.stops:
                joined = join_environments(joined, stopped)
            settled = joined == start
            self.env = joined
            if settled:
                break
        self.stops = outer_stops
        return self.run(orelse)

    def s_with(self, node: ast.With | ast.AsyncWith) -> bool:
        contexts = 0
        for item in node.items:
            value = self.ev(item.context_expr)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, v.UNKNOWN_VALUE, None)
            if value.kinds & v.DEVICE:
                contexts += 1
                self.event("effect.context", span_of(item.context_expr), "torch.device")
            elif value.cls in ops.UNTRACED_CONTEXTS:
                self.event("effect.context", span_of(item.context_expr), value.cls)
            elif value.cls in ops.LOCKS:
                written = dotted(item.context_expr) or value.cls
                self.event("effect.lock", span_of(item.context_expr), written)
        self.device_context += contexts
        captured = isinstance(node, ast.With) and captures_with(node, self.qualified)
        before = (set(self.events), set(self.calls))
        ended = self.run(node.body)
        self.device_context -= contexts
        if captured and not self.quiet:
            self.split_capture(node, *before)
        return ended

    def split_capture(
        self, node: ast.With | ast.AsyncWith, events: set[Any], calls: set[Any]
    ) -> None:
        """What happens under ``with torch.cuda.graph(...)`` is a region of its own."""
        name = f"{self.function.name}.<capture>"
        facts = self.context.facts.functions.setdefault(
            name, FunctionFacts(name, "", node.lineno, ())
        )
        facts.events += [self.events.pop(key) for key in list(self.events) if key not in events]
        facts.calls += [self.calls.pop(key) for key in list(self.calls) if key not in calls]
        road = "captured by torch.cuda.graph"
        self.context.facts.roots.append(Root("function", name, road, node.lineno))

    def s_try(self, node: ast.Try) -> bool:
        start = dict(self.env)
        ended = self.run(node.body)
        after = self.env
        ends = [ended]
        results = [] if ended else [after]
        for handler in node.handlers:
            self.env = join_environments(start, dict(after))
            if handler.name:
                self.env[handler.name] = v.OTHER_VALUE
            self.quiet += 1
            handler_ended = self.run(handler.body)
            self.quiet -= 1
            ends.append(handler_ended)
            if not handler_ended:
                results.append(self.env)
        self.env = after
        if not ended and node.orelse:
            self.env = after
            if self.run(node.orelse):
                results = [result for result in results if result is not after]
                ends[0] = True
            else:
                results[0] = self.env
        if results:
            joined = results[0]
            for result in results[1:]:
                joined = join_environments(joined, result)
            self.env = joined
        return self.run(node.finalbody) or all(ends)

    def s_match(self, node: ast.Match) -> bool:
        subject = self.ev(node.subject)
        if subject.is_tensor:
            self.event("branch.if", span_of(node.subject), "match", subject)
        start = self.env
        results = [start]
        for case in node.cases:
            self.env = dict(start)
            for name in _captured(case.pattern):
                self.env[name] = v.UNKNOWN_VALUE
            if case.guard is not None:
                self.truth(case.guard, "branch.if")
            if not self.run(case.body):
                results.append(self.env)
        joined = results[0]
        for result in results[1:]:
            joined = join_environments(joined, result)
        self.env = joined
        return False

    # -- ends and others

    def s_return(self, node: ast.Return) -> bool:
        value = self.ev(node.value)
        if not self.quiet:
            old = self.function.returns
            kept = v.shallow(value, 2)
            self.function.returns = kept if old is None else v.join(old, kept)
        return True

    def s_raise(self, node: ast.Raise) -> bool:
        self.quiet += 1
        self.ev(node.exc)
        self.quiet -= 1
        return True

    def s_expression(self, node: ast.Expr) -> None:
        self.ev(node.value)

    def s_assert(self, node: ast.Assert) -> None:
        plain = node.msg is None or isinstance(node.msg, ast.Constant)
        if isinstance(node.test, ast.UnaryOp):
            kind = "branch.not"
        elif isinstance(node.test, ast.BoolOp) or not plain:
            kind = "branch.if"
        else:
            kind = "branch.assert"
        self.truth(node.test, kind)
        if node.msg is not None:
            self.quiet += 1
            self.ev(node.msg)
            self.quiet -= 1
        self.narrow(node.test, True)

    def s_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.env[target.id] = v.UNKNOWN_VALUE

    def s_stop(self, node: ast.stmt) -> bool:
        """break and continue: the rest of the body is not reached on this path."""
        if self.stops is not None:
            self.stops.append(self.env)
        return True

    def s_import(self, node: ast.Import | ast.ImportFrom) -> None:
        for name, target in self.context.imports(node):
            if name != "*":
                self.env[name] = Value(v.CALLABLE, cls=target)

    def s_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        name = self.context.nested(node, self)
        self.env[node.name] = Value(v.CALLABLE, cls=name)
        self.mention(name, node)

    def s_class(self, node: ast.ClassDef) -> None:
        self.env[node.name] = v.UNKNOWN_VALUE


def join_environments(a: dict[str, Value], b: dict[str, Value]) -> dict[str, Value]:
    """The environment after two paths meet; a name bound on one path keeps what it is there."""
    if a is b:
        return a
    joined = dict(a)
    for name, value in b.items():
        old = joined.get(name)
        if old is None:
            joined[name] = value._replace(const=None) if value.const is not None else value
        elif old is not value:
            joined[name] = v.join(old, value)
    for name in a:
        if name not in b and joined[name].const is not None:
            joined[name] = joined[name]._replace(const=None)
    return joined


def _captured(pattern: ast.pattern) -> list[str]:
    return [
        node.name
        for node in ast.walk(pattern)
        if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
    ]


def captures_with(node: ast.With, qualified: Callable[[ast.expr], str | None]) -> bool:
    """Whether a with statement captures a CUDA graph."""
    for item in node.items:
        expression = item.context_expr
        if isinstance(expression, ast.Call) and qualified(expression.func) in ops.CAPTURES:
            return True
    return False


_STATEMENTS: dict[type[ast.stmt], Callable[[Any, Any], bool | None]] = {
    ast.Assign: Interpreter.s_assign,
    ast.AnnAssign: Interpreter.s_annotated,
    ast.AugAssign: Interpreter.s_augmented,
    ast.If: Interpreter.s_if,
    ast.While: Interpreter.s_while,
    ast.For: Interpreter.s_for,
    ast.AsyncFor: Interpreter.s_for,
    ast.With: Interpreter.s_with,
    ast.AsyncWith: Interpreter.s_with,
    ast.Try: Interpreter.s_try,
    ast.Match: Interpreter.s_match,
    ast.Return: Interpreter.s_return,
    ast.Raise: Interpreter.s_raise,
    ast.Expr: Interpreter.s_expression,
    ast.Assert: Interpreter.s_assert,
    ast.Delete: Interpreter.s_delete,
    ast.Break: Interpreter.s_stop,
    ast.Continue: Interpreter.s_stop,
    ast.Import: Interpreter.s_import,
    ast.ImportFrom: Interpreter.s_import,
    ast.FunctionDef: Interpreter.s_function,
    ast.AsyncFunctionDef: Interpreter.s_function,
    ast.ClassDef: Interpreter.s_class,
}
if hasattr(ast, "TryStar"):
    _STATEMENTS[ast.TryStar] = Interpreter.s_try
