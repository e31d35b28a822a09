"""Copies from the host to the device that the host waits for, on every step of a training loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.control_flow.statement_graph import BindingKind
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.device_moves import moves_to_device, only_moves, waits_for_copy
from pygraph_lint.analysis.domain.events import Event, Need, Needs, any_of, on_host
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.loops.call_edges import parameter
from pygraph_lint.analysis.loops.calls import HOST, cost, is_batch, on_device
from pygraph_lint.analysis.loops.joins import joined
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.syntax.literal_tests import LiteralTest, ParameterTest, TestKind
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, source_of, walk

_OF_TENSORS = ops.TENSOR_METHODS | ops.TENSOR_ATTRIBUTES | {"device", "dtype", "shape"}
# Methods by which an object goes to the device with what it holds.
_MOVING = frozenset(("to", "cuda", "to_device", "move_to", "move_to_device"))


class DeviceCopies:
    """Events of copies to the device, from what the values are that are copied."""

    def __init__(self, values: LoopValues, step: ast.AST, in_step: bool, helps: bool) -> None:
        """``in_step``: the code itself computes gradients on every step; ``helps``: it is a
        function that a step may call.
        """
        self.values = values
        self.step = step
        self.in_step = in_step
        self.helps = helps
        self.moves_batches = False  # whether a batch of a data loader goes to the device

    def moved(self, node: ast.Call, receiver: ast.expr) -> Iterator[Event]:
        """A copy to the device that the host waits for; what moves in place is a module."""
        if isinstance(self.values.queries.parent(node), ast.Expr):
            return
        value = self._before(node, receiver)
        self.moves_batches |= is_batch(value)
        annotated = self.values.is_only_annotated(receiver) and not self._joins(node)
        certain = on_device(value) and not value.needs and not annotated
        asked = () if waits_for_copy(node) else self._by_option(node)
        if asked is None or value.flags & v.MODULE or certain:
            return
        if value.kinds & v.INSTANCE and value.cls and not is_batch(value):
            return
        owner = self.values.queries.owner(receiver)
        if any("Optimizer" in (dotted(base) or "") for base in getattr(owner, "bases", ())):
            return  # gradients, and what an optimizer keeps
        if self._is_kept_on_device(receiver) or self._is_of_moved(receiver):
            return
        known = value.device == v.ON_HOST and not value.kinds & v.UNKNOWN
        host = is_batch(value) or known or value.kinds & v.NUMPY
        data = self._is_data(receiver, value) and not self._joins(node)
        if not (host or annotated or data):
            yield from _from_elsewhere(node, value)
            return
        self.moves_batches |= (
            self._is_passed(receiver) if self.helps else self.in_step and not known
        )
        event = cost("loop.copy", node, source_of(node, 40), value if host else None)
        yield event._replace(needs=(*event.needs, *asked, *self._of_caller(receiver, bool(host))))

    def copied(self, node: ast.Call, receiver: ast.expr) -> Iterator[Event]:
        """``target.copy_(data)``: from the host to the device."""
        data, target = self.values.of(node.args[0]), self.values.of(receiver)
        known = data.is_tensor and not data.kinds & v.UNKNOWN and data.device == v.ON_HOST
        certain = on_device(target) and not target.needs
        if certain and (known or is_batch(data)) and waits_for_copy(node):
            yield cost("loop.copy", node, source_of(node, 40), data)
        elif certain and waits_for_copy(node):
            yield from _from_elsewhere(node, data)

    def _is_passed(self, receiver: ast.expr) -> bool:
        """Whether what is moved is, or is a part of, what the function gets."""
        root = _root(receiver)
        found = self.values.queries.definitions.reaching(root) if isinstance(root, ast.Name) else ()
        return any(each.kind is BindingKind.PARAMETER for each in found)

    def _of_caller(self, receiver: ast.expr, host: bool) -> Needs:
        """That some call passes a tensor of the host for a parameter, or what nobody knows, where
        nothing else says that it is on the host.
        """
        given = parameter(self.values, receiver) if self.helps and not host else None
        if given is None:
            return ()
        return any_of((on_host(given),), (given._replace(kind="open"),))

    def _before(self, node: ast.Call, receiver: ast.expr) -> Value:
        """What is moved: of ``x = x.to(device)`` in a loop not what the move itself has left, and
        of ``self.x = self.x.to(device)`` what else the function stores there.
        """
        queries = self.values.queries
        if isinstance(receiver, ast.Attribute) and dotted(receiver.value) == "self":
            key, scope = (queries.owner(receiver), receiver.attr), queries.scope(node)
            pairs = self.values.evidence.assigned_to_self.get(key, ())
            stored = [value for target, value in pairs if queries.scope(target) is scope]
            new = [value for value in stored if not only_moves(value)]
            if node in stored and new:
                return joined(list(map(self.values.of, new)))
        found = queries.definitions.reaching(receiver) if isinstance(receiver, ast.Name) else ()
        others = [each for each in found if each.value is not node]
        if not others or len(others) == len(found):
            return self.values.of(receiver)
        return joined([self.values.defined(each) for each in others])

    def _by_option(self, move: ast.Call) -> Needs | None:
        """For ``x.to(device, non_blocking=n)`` with a parameter ``n``: that some call leaves it
        False. None where the copy is asynchronous.
        """
        given = [item.value for item in move.keywords if item.arg == "non_blocking"]
        option = parameter(self.values, given[0]) if given else None
        if option is None:
            return None
        tests = (ParameterTest(option.name, LiteralTest(TestKind.TRUE), False),)
        return (Need("may", option.owner, "", tests=tests),)

    def _is_kept_on_device(self, receiver: ast.expr) -> bool:
        """Whether an object that was made with a device gives this: ``buffer.sample()``."""
        given = self._origin(receiver)
        method = given.func if isinstance(given, ast.Call) else None
        maker = self._origin(method.value) if isinstance(method, ast.Attribute) else None
        return isinstance(maker, ast.Call) and any(
            node.arg == "device" and getattr(node.value, "value", "") not in (None, "cpu")
            for node in walk(maker)
            if isinstance(node, ast.keyword)
        )

    def _is_of_moved(self, receiver: ast.expr) -> bool:
        """Whether the object that holds this was moved in place: ``batch.to(device)``."""
        holder = dotted(receiver.value) if isinstance(receiver, ast.Attribute) else None
        moves = (
            each.value.func.value
            for each in walk(self.values.queries.scope(receiver))
            if isinstance(each, ast.Expr)
            and isinstance(each.value, ast.Call)
            and isinstance(each.value.func, ast.Attribute)
            and moves_to_device(each.value)
        )
        return holder is not None and any(
            dotted(each) == holder and each.lineno < receiver.lineno for each in moves
        )

    def _origin(self, node: ast.expr) -> ast.expr | None:
        """The expression that a name stands for."""
        return self.values.queries.only_value(node) if isinstance(node, ast.Name) else node

    def _joins(self, call: ast.Call) -> bool:
        """``x.to(y.device)``: where another tensor is, which mostly is where ``x`` is, too."""
        target = call.args[0] if call.args else None
        if not isinstance(target, ast.Attribute) or target.attr != "device":
            return False
        beside = target.value
        if isinstance(beside, ast.Attribute):  # ``x.to(self.sigmas.device)``
            held = self.values.of(beside)
            return held.is_tensor and not held.needs
        if not isinstance(beside, ast.Name):
            return False
        if self.values.queries.qualified(target) is not None:
            return False  # a module's
        if on_device(self.values.of(beside)) and not self.values.of(beside).needs:
            return True
        others = {
            node.attr
            for node in walk(self.values.queries.scope(call))
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == beside.id
        }
        return beside.id != "self" and others <= _OF_TENSORS

    def _is_data(self, receiver: ast.expr, value: Value) -> bool:
        """Whether nothing is known of what is moved, but that it is no module. In a function that a
        step calls it is an argument, or a part of one: objects may keep tensors of the device.
        """
        root = _root(receiver)
        helps = not self.in_step and getattr(self.step, "name", "") not in _MOVING
        if helps and (not isinstance(root, ast.Name) or root.id == "self"):
            return False
        if self._is_made_of_device(receiver):
            return False
        written = last_part(receiver).lower()
        return bool(value.kinds & v.UNKNOWN) and not any(
            word in written for word in ("model", "net", "module", "criterion", "loss")
        )

    def _is_made_of_device(self, node: ast.expr) -> bool:
        """Whether functions make something of tensors of the device, and of none of the host: where
        these are, it mostly is, too.
        """
        calls = (each for each in walk(node) if isinstance(each, ast.Call))
        given = [self.values.of(each) for call in calls for each in call.args]
        sure = any(on_device(each) and not each.needs for each in given)
        return sure and not any(is_batch(each) for each in given)


def _from_elsewhere(node: ast.Call, data: Value) -> Iterator[Event]:
    """A copy of what a function gives, or is passed, where that is a tensor on the host."""
    source = data.needs[0] if data.flags & v.SYMBOL and len(data.needs) == 1 else None
    if source is not None and source.kind in ("param", "return"):
        yield cost("loop.copy", node, source_of(node, 40), HOST._replace(needs=(on_host(source),)))


def _root(node: ast.expr) -> ast.expr:
    """What an expression is a part of, or is computed from by a tensor's methods."""
    while isinstance(node, (ast.Attribute, ast.Subscript)) or _is_method(node):
        node = node.func if isinstance(node, ast.Call) else node.value  # type: ignore[attr-defined]
    return node


def _is_method(node: ast.expr) -> bool:
    """Whether a tensor's method is called: ``x.float()``."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in ops.TENSOR_METHODS
