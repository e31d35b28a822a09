"""Tensors made on the host that the host reads itself, or that are calculated with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import EVERY, Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.host_tensor_uses import HostUses, Meets
from pygraph_lint.analysis.interpreter.state import Key, State
from pygraph_lint.analysis.syntax.nodes import walk

# Findings are about CUDA devices and the host.
OTHER_DEVICES = ("mps", "xpu", "npu", "hpu", "mlu", "xla", "tpu", "ipu", "privateuseone")
_OF_NUMBER = "host.scalar-tensor"
MADE = ("host.factory", _OF_NUMBER, "host.data-tensor")


def _made(state: State, node: ast.Name | ast.Call) -> Key | None:
    """The event of the host tensor that a call makes, or that a name holds."""
    if isinstance(node, ast.Name):
        return state.origins.get(node.id)
    keys = ((kind, node.lineno, node.col_offset) for kind in MADE)
    return next((key for key in keys if key in state.events), None)


def _made_in(state: State, node: ast.expr) -> Iterator[tuple[Key, tuple[int, int]]]:
    """The events of the host tensors in an expression, and the places where these stand."""
    for part in walk(node):
        if isinstance(part, (ast.Name, ast.Call)):
            key = _made(state, part)
            if key is not None:
                yield key, (part.lineno, part.col_offset)


def note_met(state: State, node: ast.expr, value: Value, other: Value) -> None:
    """Note that tensors which the host has made, of numbers or of lists, are calculated with one of
    the device: that can be done with tensors of one number only, which nothing copies.
    """
    if value.device == v.ON_HOST and other.is_tensor and other.device != v.ON_HOST:
        for part in _made_in(state, node):
            state.met.setdefault(part[0], set()).add(part[1])


def note_uses(state: State) -> None:
    """Mark the host tensors that have to be of one number, and forget those that never meet the
    device, and are not given to a caller that may bring them there.
    """
    for key, places in state.met.items():
        event = state.events.get(key)
        of_anything = event is not None and event.note("unknown") == "yes"
        if event is not None and of_anything and state.loads.get(key, places) <= places:
            del state.events[key]
            event = event._replace(kind=_OF_NUMBER, notes=())
            state.events[(_OF_NUMBER, key[1], key[2])] = event
    keys = [key for key, event in state.events.items() if key[0] in MADE]
    made = [key for key in keys if state.events[key].note("placed") is None]
    if made:
        _forget_unused(state, made, HostUses(state))


def _forget_unused(state: State, made: list[Key], uses: HostUses) -> None:
    for key in made:
        call = uses.calls.get(key[1:])
        value = state.seen.get(call) if call is not None else None
        if call is None or value is None or value.device != v.ON_HOST:
            continue
        meets = uses.meets(call)
        if meets is Meets.SEEN:
            continue
        event = state.events.pop(key)
        if event.kind == "host.data-tensor":  # what may copy it is elsewhere
            event = event._replace(notes=(*event.notes, ("stays", "yes")))
        conditions = {*uses.conditions, *([(EVERY,)] if meets is Meets.PERHAPS else ())}
        if value.flags & v.RANDOM and uses.is_kept(call) and meets is Meets.NEVER:
            # Nothing waits for it, but a replayed graph does not draw again.
            notes = (*event.notes, ("waits", "no"), ("drawn", "yes"))
            state.events[key] = event._replace(notes=notes)
        elif conditions:
            any_of_them = Need("any", "", "", tuple(sorted(conditions, key=repr)))
            state.events[key] = event._replace(needs=(*event.needs, any_of_them))
