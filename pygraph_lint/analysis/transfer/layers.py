"""Layers of torch.nn: made, and applied."""

from __future__ import annotations

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.nodes import short, span_of
from pygraph_lint.analysis.state import CallSite, State
from pygraph_lint.analysis.values import Value


def make_layer(state: State, name: str, site: CallSite) -> Value:
    """``nn.Linear(...)``: a module instance."""
    if name in ops.NOT_LAYERS:
        return v.UNKNOWN_VALUE
    if name.rpartition(".")[2] in ops.PARAMETER_LAYERS:
        state.event("effect.parameter-made", span_of(site.node), name)
    canonical = "torch.nn." + name.rpartition(".")[2]
    if canonical in ops.CONTAINER_LAYERS:
        held = v.element(site.first) if site.positional else v.UNKNOWN_VALUE
        if canonical.startswith("torch.nn.Parameter"):
            held = v.tensor("held by a ParameterList", "float", v.ON_DEVICE, flags=v.BUFFER)
        return Value(v.SEQUENCE, item=held)
    return Value(v.INSTANCE, flags=v.MODULE, cls=canonical)


def apply_layer(state: State, layer: Value, site: CallSite) -> Value:
    """``layer(x)`` for a layer of torch.nn."""
    name = layer.cls
    why = f"returned by a {short(name)} layer" if name else "returned by a layer"
    if name in ops.RECURRENT:
        state.event("effect.rnn", span_of(site.node), name)
    result = v.tensor(why, "float", v.ON_DEVICE)
    count = ops.TUPLE_LAYERS.get(name)
    return result if count is None else v.sequence([result] * count)
