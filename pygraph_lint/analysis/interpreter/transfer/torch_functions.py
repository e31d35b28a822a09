"""Calls of torch's own functions by name."""

from __future__ import annotations

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.symbols import constant
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import merge_device
from pygraph_lint.analysis.interpreter.transfer.distributions import made_distribution
from pygraph_lint.analysis.interpreter.transfer.factories import (
    make_factory,
    make_from_data,
    note_generator,
)
from pygraph_lint.analysis.interpreter.transfer.layers import make_layer
from pygraph_lint.analysis.interpreter.transfer.operations import torch_operation
from pygraph_lint.analysis.program.facts import Root
from pygraph_lint.analysis.syntax.nodes import span_of

# Functions that trace what they get: whoever calls them is not traced itself.
_TRACERS = ops.COMPILERS | {
    *("torch.export.export", "torch.export.draft_export", "torch.onnx.export"),
    *("torch.jit.trace", "torch.jit.script", "torch.fx.symbolic_trace"),
    *("torch.fx.experimental.proxy_tensor.make_fx", "torch._dynamo.export"),
}
_CALL_WHAT_THEY_GET = ("torch.utils.checkpoint.checkpoint", "torch.cond")
# What they make calls the function that they get, over a batch; or gives derivatives of it.
_OVER_BATCHES = ("torch.vmap", "torch.func.vmap")
_DERIVATIVES = tuple(f"torch.func.{name}" for name in ("grad", "jacrev", "jacfwd", "hessian"))
_OF_FUNCTIONS = ("torch.autograd.functional.jacobian", "torch.autograd.functional.hessian")
_PACKERS = ("torch.nn.utils.rnn.pack_padded_sequence",)


def call_torch(state: State, name: str, head: str, tail: str, site: CallSite) -> Value:
    """A call of ``torch.<...>``."""
    if name in ops.PARAMETERS:
        state.event("effect.parameter-made", span_of(site.node), name)
        return v.tensor(f"made by {name}", "float", v.ON_DEVICE, flags=v.BUFFER)
    if name in _TRACERS and not state.quiet:
        state.function.on_host = True
    of_layers = head in ("torch.nn", "torch.nn.modules") or head.startswith("torch.nn.modules.")
    if of_layers and tail[:1].isupper():
        return make_layer(state, name, site)
    if name in ops.COMPILERS or name in ops.GRAPHERS:
        return compiled(state, name, site)
    note_generator(state, name, site)
    given = _call_transform(state, name, site)
    if given is not None:
        return given
    if head == "torch.fft" and f"fft.{tail}" in ops.FREQUENCIES:
        return make_factory(state, f"fft.{tail}", site)
    if head == "torch":
        found = _call_top_level(state, tail, site)
        if found is not None:
            return found
    return _call_namespace(state, name, head, tail, site)


def _call_namespace(state: State, name: str, head: str, tail: str, site: CallSite) -> Value:
    """A call of a function in one of torch's modules, or of an operation."""
    if head == "torch.random":
        return v.OTHER_VALUE
    if name in _CALL_WHAT_THEY_GET and site.positional:
        functions = [value for value in site.positional if value.kinds & v.CALLABLE]
        rest = CallSite(site.node, site.positional[1:], {})
        return v.join_all([call_passed(state, function, rest) for function in functions])
    if name.startswith("torch.distributions."):
        return made_distribution(state, name, site)
    if name in _PACKERS:
        return _packed(state, name, site)
    if name == "torch.autograd.grad":
        return Value(v.SEQUENCE, item=v.tensor(f"{name} returns tensors"))
    if name.startswith(ops.OTHER_NAMESPACES) and not name.startswith("torch.nn."):
        return v.UNKNOWN_VALUE if head == "torch.autograd.functional" else Value(v.OTHER, cls=name)
    private = any(part.startswith("_") for part in head.split("."))
    computes = head in ("torch", "torch.Tensor") or name.startswith(ops.TENSOR_NAMESPACES)
    if computes and not private:
        return torch_operation(state, tail, name, site, None)
    return v.UNKNOWN_VALUE


def _packed(state: State, name: str, site: CallSite) -> Value:
    """Sequences that are packed by their lengths, which have to be on the host."""
    lengths = site.get(1, "lengths")
    moved = lengths.is_tensor and lengths.device != v.ON_HOST
    about, notes = (lengths, {}) if moved else (None, {"waits": "no"})
    state.event("host.lengths", span_of(site.node), name, about, **notes)
    return v.OTHER_VALUE


def _call_transform(state: State, name: str, site: CallSite) -> Value | None:
    """A call that makes a function of a function, or of what was made so; None for any other."""
    if name in _OVER_BATCHES and _gives_several(state, site.first):
        return site.first
    if name in _OVER_BATCHES or (name in _DERIVATIVES and len(site.everything) == 1):
        return Value(v.CALLABLE, cls=f"{name}()")
    if name.endswith("()") or (name in _OF_FUNCTIONS and site.get(1, "inputs").must_be_tensor):
        return v.tensor(f"{name} returns a tensor", device=merge_device(site.everything))
    return None


def _gives_several(state: State, function: Value) -> bool:
    """Whether a function of this file gives several tensors."""
    known = state.module.returned(function.cls) if function.kinds & v.CALLABLE else None
    return known is not None and bool(known.kinds & (v.SEQUENCE | v.MAPPING))


def folded(name: str) -> Value | None:
    """The value of a call that compiled code has no part in; None for any other."""
    if name in ops.FOLDED_TRUE:
        return constant(True)
    if name in ops.FOLDED_FALSE:
        return constant(False)
    if name in ops.REGION_ENDS:  # What is named here is not part of the region.
        return v.UNKNOWN_VALUE
    return None


def _call_top_level(state: State, tail: str, site: CallSite) -> Value | None:
    """``torch.name(...)`` where that is no operation on tensors; None where it is."""
    if tail == "_assert":
        if site.first.is_tensor and not site.first.kinds & v.UNKNOWN:
            state.event("sync.number", span_of(site.node), "torch._assert()", site.first)
        return v.NONE_VALUE
    other = ops.NOT_TENSORS.get(tail)
    if other is not None:
        return _OTHER.get(other, v.OTHER_VALUE) if other != "device" else _device(site)
    if tail in ops.FACTORIES:
        return make_factory(state, tail, site)
    if tail in ops.FROM_DATA or tail in ops.TYPED_CONSTRUCTORS:
        return make_from_data(state, tail, site)
    if tail[:1].isupper() and not tail.endswith("Tensor"):  # GradScaler and other classes
        return v.OTHER_VALUE
    if tail.startswith("_foreach"):
        where = merge_device(site.positional)
        return Value(v.SEQUENCE, item=v.tensor(f"torch.{tail} returns tensors", device=where))
    return None


def compiled(state: State, name: str, site: CallSite) -> Value:
    """``torch.compile(x)``, ``make_graphed_callables((x, y), ...)``: regions start at what is
    passed.
    """
    values = site.everything
    if not values:
        return v.UNKNOWN_VALUE
    first = values[0]
    if site.named.get("disable", v.UNKNOWN_VALUE).const is True:
        return first
    roots = state.module.facts.roots
    state.module.cannot_repeat()
    for value in (first, *(first.items or ())):
        if value.flags & v.SYMBOL and value.needs and value.needs[0].kind == "return":
            root = Root("result", value.needs[0].owner, f"passed to {name}", site.node.lineno)
        elif value.flags & v.SYMBOL and value.needs and value.needs[0].kind == "attr":
            need = value.needs[0]
            target = f"{need.owner}.{need.name}"
            root = Root("function", target, f"passed to {name}", site.node.lineno)
        elif value.kinds & v.INSTANCE and value.cls and not value.flags & v.MODULE:
            root = Root("instance", value.cls, f"passed to {name}", site.node.lineno)
        elif value.kinds & v.CALLABLE and value.cls:
            root = Root("function", value.cls, f"passed to {name}", site.node.lineno)
        else:
            continue
        if root not in roots:
            roots.append(root)
    return first


def call_passed(state: State, function: Value, site: CallSite) -> Value:
    """A function handed to torch that calls it."""
    if not function.cls:
        return v.UNKNOWN_VALUE
    owner, _, method = function.cls.rpartition(".")
    if owner in state.module.class_nodes:
        state.record_call("method", owner, method, site.node, site)
    else:
        state.record_call("function", function.cls, "", site.node, site)
    return Value(
        v.TENSOR | v.UNKNOWN,
        device=v.ON_DEVICE,
        flags=v.SYMBOL,
        needs=(Need("return", function.cls, ""),),
        why="returned by a checkpointed function",
    )


def _device(site: CallSite) -> Value:
    return Value(v.DEVICE, flags=v.DEVICE_CPU if site.first.const == "cpu" else 0)


_OTHER: dict[str, Value] = {
    "number": v.NUMBER_VALUE,
    "dtype": v.DTYPE_VALUE,
    "generator": v.GENERATOR_VALUE,
}
