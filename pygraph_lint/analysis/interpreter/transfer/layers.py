"""Layers of torch.nn: made, and applied."""

from __future__ import annotations

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.attributes import RECURRENT
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.syntax.nodes import short, span_of

# Layers that own parameters: building one in a region is what cannot be traced.
_PARAMETER_LAYERS = frozenset(
    """
        Linear Bilinear LazyLinear Embedding EmbeddingBag LayerNorm RMSNorm GroupNorm BatchNorm1d
        BatchNorm2d BatchNorm3d SyncBatchNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d PReLU
        Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d RNN LSTM GRU RNNCell
        LSTMCell GRUCell MultiheadAttention Transformer TransformerEncoder TransformerDecoder
        TransformerEncoderLayer TransformerDecoderLayer ParameterList ParameterDict LazyConv1d
        LazyConv2d AdaptiveLogSoftmaxWithLoss
    """.split()
)
# Layers that return two tensors, not one.
_PAIR_LAYERS = tuple(
    f"torch.nn.{name}" for name in "MultiheadAttention LSTM GRU RNN LSTMCell".split()
)
_CONTAINER_LAYERS = tuple(
    f"torch.nn.{name}" for name in "ModuleList ModuleDict ParameterList ParameterDict".split()
)

# Layers that compare a mask to find out whether it is causal: where it stands, its name, and what
# tells them instead.
_ASKING = {
    "torch.nn.TransformerEncoder": (1, "mask", "is_causal"),
    "torch.nn.TransformerDecoder": (2, "tgt_mask", "tgt_is_causal"),
}


def make_layer(state: State, name: str, site: CallSite) -> Value:
    """``nn.Linear(...)``: a module instance."""
    if name in ops.NOT_LAYERS:
        return v.UNKNOWN_VALUE
    if name.rpartition(".")[2] in _PARAMETER_LAYERS:
        state.event("effect.parameter-made", span_of(site.node), name)
    canonical = "torch.nn." + name.rpartition(".")[2]
    if canonical in _CONTAINER_LAYERS:
        if not site.positional and not canonical.startswith("torch.nn.Parameter"):
            return Value(v.SEQUENCE, items=())
        held = v.element(site.first) if site.positional else v.UNKNOWN_VALUE
        if canonical.startswith("torch.nn.Parameter"):
            held = v.tensor("held by a ParameterList", "float", v.ON_DEVICE, flags=v.BUFFER)
        return Value(v.SEQUENCE, item=held)
    return Value(v.INSTANCE, flags=v.MODULE, cls=canonical)


def apply_layer(state: State, layer: Value, site: CallSite) -> Value:
    """``layer(x)`` for a layer of torch.nn."""
    classes = v.classes(layer)
    name = classes[0] if classes else ""
    why = f"returned by a {short(name)} layer" if name else "returned by a layer"
    if classes and all(each in RECURRENT for each in classes):
        state.event("effect.rnn", span_of(site.node), name)
    if name in _ASKING:
        place, mask, told = _ASKING[name]
        given = site.get(place, mask, v.NONE_VALUE)
        if given.is_tensor and told not in site.named:
            state.event("branch.if", span_of(site.node), name, given)
    state.function.takes_tensors = True
    result = v.tensor(why, "float", v.ON_DEVICE)
    pair = bool(classes) and all(each in _PAIR_LAYERS for each in classes)
    return v.sequence([result] * 2) if pair else result
