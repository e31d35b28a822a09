"""Tensors of a graph kept or exchanged between replays: outputs overwritten, inputs never read."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.capture.scopes import (
    Capture,
    Scope,
    bindings,
    end,
    make_event,
    start,
    targets_of,
)
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.program.names import own_nodes
from pygraph_lint.analysis.syntax.nodes import dotted, is_constant, receiver, source_of


def kept_outputs(scope: Scope) -> Iterator[Event]:
    """Results of replays that are kept although a later replay overwrites them."""
    for loop in scope.nodes:
        if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
            yield from _kept_in_loop(scope, loop)
        elif isinstance(loop, (ast.ListComp, ast.DictComp)):
            element = loop.elt if isinstance(loop, ast.ListComp) else loop.value
            reason = _overwritten(scope, _unwrapped(element), {})
            if reason:
                yield make_event("capture.kept-output", element, reason)


def _kept_in_loop(scope: Scope, loop: ast.For | ast.AsyncFor | ast.While) -> Iterator[Event]:
    nodes = list(own_nodes(loop))
    bound_inside = {key for node in [loop, *nodes] for key, _ in bindings(node)}
    outputs = _replayed_outputs(scope, nodes)
    for node in nodes:
        for key, value in bindings(node):
            outputs.pop(key, None)
            reason = _overwritten(scope, _unwrapped(value), outputs) if value else ""
            if reason:
                outputs[key] = reason
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            reason = _overwritten(scope, node.value, {})
            for target in node.targets:
                if reason and isinstance(target, ast.Tuple):
                    outputs.update({key: reason for key, _ in targets_of(target, None)})
        yield from _carried(scope, node)
        for kept, container in _kept_by(node):
            if container is not None and container not in bound_inside:
                reason = _overwritten(scope, _unwrapped(kept), outputs)
                if reason:
                    yield make_event("capture.kept-output", kept, reason)


def _carried(scope: Scope, node: ast.AST) -> Iterator[Event]:
    """``state = step(x, state)`` in a loop: the next call reads what it writes over.

    make_graphed_callables copies its inputs, so only torch.compile's graphs are meant.
    """
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
        return
    made = scope.made(node.value.func)
    if made is None or made.kind != "compiled" or not made.graphs:
        return
    bound = {key for key, _ in bindings(node)}
    given = [*node.value.args, *(keyword.value for keyword in node.value.keywords)]
    if any(dotted(argument) in bound for argument in given):
        yield make_event("capture.kept-output", node.value, _overwritten(scope, node.value, {}))


def _kept_by(node: ast.AST) -> Iterator[tuple[ast.expr, str | None]]:
    """Values that a statement puts into a container, with the container's name."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("append", "appendleft", "add") and len(node.args) == 1:
            yield node.args[0], dotted(node.func.value)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                yield node.value, _dict_like(target)


def _dict_like(target: ast.Subscript) -> str | None:
    """The container of ``kept["key"] = value``: a tensor takes no text, and copies what it gets."""
    is_text = isinstance(target.slice, ast.JoinedStr) or (
        isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str)
    )
    return dotted(target.value) if is_text else None


def _unwrapped(node: ast.expr) -> ast.expr:
    """``y`` for ``y.detach()``: another tensor object over the same memory."""
    while (inner := receiver(node, ("detach", "view", "squeeze", "unsqueeze"))) is not None:
        node = inner
    return node


def _overwritten(scope: Scope, node: ast.expr, outputs: dict[str, str]) -> str:
    """Why the next replay writes over ``node``'s memory, or an empty text."""
    key = dotted(node)
    if key is not None:
        return outputs.get(key, "")
    if not isinstance(node, ast.Call):
        return ""
    made = scope.made(node.func)
    if made is None:
        return ""
    called, line = source_of(node.func), made.call.lineno
    if made.kind == "compiled" and made.graphs:
        return f"`{called}` is compiled with CUDA graphs on line {line}"
    if made.kind == "graphed":
        return f"`{called}` was made by make_graphed_callables on line {line}"
    return ""


def _replayed_outputs(scope: Scope, nodes: list[ast.AST]) -> dict[str, str]:
    """Tensors bound inside captures whose graph is replayed among ``nodes``."""
    replayed = {_replay_of(node) for node in nodes} - {None}
    captures = [*scope.captures, *(scope.owner.captures if scope.owner else ())]
    return {
        key: f"`{key}` is bound in the capture of `{capture.graph}` on line {capture.block.lineno}"
        for capture in captures
        if capture.graph in replayed
        for key in capture.assigned
    }


def _replay_of(node: ast.AST) -> str | None:
    return dotted(receiver(node, ("replay",)))


def rebound_inputs(scope: Scope) -> Iterator[Event]:
    """Names of static inputs that get another tensor, which no replay reads."""
    captures = list(scope.captures)
    if scope.owner is not None:
        captures.extend(c for c in scope.owner.captures if c.block not in scope.nodes)
    for capture in captures:
        local = capture.block in scope.nodes
        for node in scope.nodes:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            if local and start(node) < end(capture.block):
                continue
            key = dotted(node.targets[0])
            if key is None or key in capture.assigned or not capture.is_argument(key):
                continue
            if not local and (not key.startswith("self.") or scope.captures):
                continue
            if is_constant(node.value, None) or not _replayed_unread(scope, capture, node, key):
                continue
            line = capture.block.lineno
            yield make_event(
                "capture.input-rebound",
                node,
                f"the capture on line {line} reads `{key}`'s old tensor",
            )


def _replayed_unread(scope: Scope, capture: Capture, assign: ast.Assign, key: str) -> bool:
    """Whether the graph is replayed after ``assign`` and nothing in between reads the new value."""
    for node in scope.nodes:
        if start(node) <= end(assign):
            continue
        if capture.graph is not None and _replay_of(node) == capture.graph:
            return True
        if dotted(node) == key:
            return False
    return False
