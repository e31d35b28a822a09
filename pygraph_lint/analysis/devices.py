"""Tensors made on the host that meet tensors of the device."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.nodes import dotted, walk
from pygraph_lint.analysis.state import Key, State
from pygraph_lint.analysis.values import Value

# Findings are about CUDA devices and the host.
OTHER_DEVICES = ("mps", "xpu", "npu", "hpu", "mlu", "xla", "tpu", "ipu", "privateuseone")
MADE = ("host.factory", "host.scalar-tensor", "host.data-tensor")


def note_mixed_devices(
    state: State, left_node: ast.expr, left: Value, right_node: ast.expr, right: Value
) -> None:
    """Note, for a tensor made on the host, the device expression of the tensor it meets."""
    if left.is_tensor and right.is_tensor and left.device != right.device:
        _note_meeting(state, left_node, left, right_node, right)
        _note_meeting(state, right_node, right, left_node, left)


def _note_meeting(
    state: State, host_node: ast.expr, host: Value, device_node: ast.expr, device: Value
) -> None:
    if host.device != v.ON_HOST or device.device != v.ON_DEVICE:
        return
    text = dotted(device_node)
    key = _made(state, host_node)
    if key is None:
        return
    state.met.setdefault(key, set()).add((host_node.lineno, host_node.col_offset))
    if text is not None:
        state.add_note(key, "meets", f"{text}.device")


def _made(state: State, node: ast.expr) -> Key | None:
    """The event of the host tensor that an expression makes, or that a name holds."""
    if isinstance(node, ast.Name):
        return state.origins.get(node.id)
    if isinstance(node, ast.Call):
        for kind in MADE:
            if (kind, node.lineno, node.col_offset) in state.events:
                return kind, node.lineno, node.col_offset
    return None


def note_read(state: State, node: ast.expr) -> None:
    """Note that the host reads the values of tensors which it has made itself: of one, or of what
    it computes from some.
    """
    if state.ev_quiet(node).device != v.ON_HOST:
        return
    for part in walk(node):
        if not isinstance(part, (ast.Name, ast.Call)):
            continue
        key = _made(state, part)
        if key is not None:
            state.read.setdefault(key, set()).add((part.lineno, part.col_offset))


def note_uses(state: State) -> None:
    """Mark the host tensors that nothing but tensors of the device ever sees, and those that only
    the host reads.
    """
    for key, places in state.met.items():
        if state.loads.get(key, places) <= places:
            state.add_note(key, "uses", "device")
    for key, places in state.read.items():
        if state.loads.get(key, places) <= places:
            state.add_note(key, "waits", "no")
