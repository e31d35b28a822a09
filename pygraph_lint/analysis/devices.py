"""Tensors made on the host that the host reads itself."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.nodes import walk
from pygraph_lint.analysis.state import Key, State

# Findings are about CUDA devices and the host.
OTHER_DEVICES = ("mps", "xpu", "npu", "hpu", "mlu", "xla", "tpu", "ipu", "privateuseone")
MADE = ("host.factory", "host.scalar-tensor", "host.data-tensor")


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
    """Mark the host tensors that only the host reads."""
    for key, places in state.read.items():
        if state.loads.get(key, places) <= places:
            state.add_note(key, "waits", "no")
