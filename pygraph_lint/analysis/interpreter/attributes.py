"""Names and attributes that are read."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.symbols import constant, extend, symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.host_tensors import OTHER_DEVICES
from pygraph_lint.analysis.interpreter.project_calls import returned
from pygraph_lint.analysis.interpreter.state import BUILTINS, CallSite, State
from pygraph_lint.analysis.interpreter.transfer.distributions import (
    distribution_attribute,
    is_distribution,
)
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, short, source_of, span_of

_DESCRIBED = {"device": v.DEVICE_VALUE, "dtype": v.DTYPE_VALUE, "shape": v.SHAPE_VALUE}
PARAMETER = v.tensor("a parameter of a module", "float", v.ON_DEVICE, flags=v.BUFFER)
# What an optimizer has.
PARAMETER_GROUPS = Value(
    v.SEQUENCE, item=v.mapping({"params": Value(v.SEQUENCE, item=PARAMETER, flags=v.LIST)})
)
# What methods of modules and optimizers find, where nothing else is known.
_OF_MODELS = {
    "device": v.DEVICE_VALUE,
    "dtype": v.DTYPE_VALUE,
    "training": v.NUMBER_VALUE,
    "config": v.OTHER_VALUE,
    "param_groups": PARAMETER_GROUPS,
}
RECURRENT = frozenset(
    f"torch.nn.{place}{name}" for place in ("", "modules.rnn.") for name in ("LSTM", "GRU", "RNN")
)
# How objects are called that hold settings, and no tensors.
_OF_SETTINGS = ("args", "cfg", "conf", "config", "opt", "opts", "options", "params", "settings")
_OF_OTHER_DEVICES = frozenset(f"is_{name}" for name in OTHER_DEVICES)
_RESULT_FIELDS = {"values": 0, "indices": 1, "P": 0, "L": 1, "U": 2}


def eval_constant(state: State, node: ast.Constant) -> Value:
    """``3``, ``"text"``, ``None``."""
    return constant(node.value)


def eval_name(state: State, node: ast.Name) -> Value:
    """``name``: what a variable holds, or what the name is bound to in the module."""
    value = state.env.get(node.id)
    if value is not None:
        if node.id in state.origins:
            state.loads.setdefault(state.origins[node.id], set()).add(
                (node.lineno, node.col_offset)
            )
        return value
    if node.id in state.locals:
        return v.UNKNOWN_VALUE
    known = state.module.module_values.get(node.id)
    if known is not None:
        if known.kinds == v.CALLABLE:
            state.mention(known.cls, node)
        elif known.kinds & (v.MAPPING | v.INSTANCE):
            state.mention(f"{state.module.name}.{node.id}", node)
        return known
    target = state.module.bindings.get(node.id)
    if target is not None:
        state.mention(target, node)
        return v.plain(v.CALLABLE, target)
    if node.id in BUILTINS:
        return v.plain(v.CALLABLE, "builtins." + node.id)
    target = state.module.names.resolve(node)
    if target is not None:
        state.mention(target, node)
        return Value(v.CALLABLE | v.UNKNOWN, cls=target)
    return v.UNKNOWN_VALUE


def eval_attribute(state: State, node: ast.Attribute) -> Value:
    """``base.name``."""
    qualified = state.qualified(node)
    if qualified is not None:
        return qualified_value(state, qualified, node)
    if isinstance(node.value, ast.Name) and node.value.id == state.self_name and state.self_name:
        return self_attribute(state, node.attr, node)
    base = state.ev(node.value)
    return attribute_of(state, base, node)


def qualified_value(state: State, name: str, node: ast.Attribute) -> Value:
    """A dotted name that leads out of the function: ``torch.float32``, ``logging.info``."""
    head, _, tail = name.rpartition(".")
    if head == "torch":
        kind = ops.DTYPES.get(tail)
        if kind is not None:
            return Value(v.DTYPE, dtype=kind)
        if tail in ("pi", "inf", "nan", "e"):
            return v.NUMBER_VALUE
    elif head == "math":
        if tail in ("pi", "inf", "nan", "e", "tau"):
            return v.NUMBER_VALUE
    elif head == "numpy" and tail in ("pi", "inf", "nan", "e", "newaxis"):
        return v.NUMBER_VALUE
    root = state.module.module_values.get(dotted(node).split(".")[0]) if dotted(node) else None  # type: ignore[union-attr]
    if root is not None and root.kinds != v.CALLABLE:
        return attribute_of(state, root, node)
    state.mention(name, node)
    return v.plain(v.CALLABLE, name)


def self_attribute(state: State, name: str, node: ast.Attribute) -> Value:
    """``self.name``: what this function stored there, else what the class is known to hold."""
    value = state.env.get("self." + name)
    if value is not None:
        return value
    value = state.module.class_attribute(state.owner, name)
    kept = state.made_with(value) if value is not None else ""
    if kept and kept not in state.function.made_with:
        state.function.made_with += (kept,)
    if value is None:
        return _self_attribute_never_stored(state, name, node)
    if _is_start(value) and state.module.is_rebound(state.owner, name):
        held = symbol(Need("attr", state.owner, name), f"`self.{name}` holds a tensor")
        return held._replace(kinds=v.TENSOR | (value.kinds & ~v.TENSOR))
    if value.flags & v.PLAIN and value.is_tensor:
        state.event("host.attribute", span_of(node), f"self.{name}", value)
    elif value.is_tensor and not value.needs and value.device != v.ON_HOST:
        state.function.takes_tensors = True
    return value


def _self_attribute_never_stored(state: State, name: str, node: ast.Attribute) -> Value:
    """``self.name`` where no statement of the class stores it: a method, or of a base class."""
    if name in _OF_MODELS:
        return _OF_MODELS[name]
    if state.module.is_kept(state.owner, name):
        _note_kept(state, f"self.{name}", node)
    if state.module.is_property(state.owner, name):
        return _read_property(state, state.owner, name, node)
    if state.module.has_method(state.owner, name):
        state.record_call("method", state.owner, name, node)
        return Value(v.CALLABLE | v.UNKNOWN, cls=f"{state.owner}.{name}")
    if state.module.is_open(state.owner):
        return symbol(Need("attr", state.owner, name), f"`self.{name}` holds a tensor")
    return v.UNKNOWN_VALUE


def _is_start(value: Value) -> bool:
    """Whether a value is what an attribute is set to before there is anything to hold."""
    literal = value.kinds == v.NUMBER and value.flags & v.LITERAL
    return bool(literal) or not value.kinds & ~(v.NONE | v.UNKNOWN)


def _note_kept(state: State, subject: str, node: ast.Attribute) -> None:
    """Record a cached property where the function reads it first: then it is kept."""
    kind = "effect.cached-property"
    if not any(key[0] == kind and each.subject == subject for key, each in state.events.items()):
        state.event(kind, span_of(node), subject)


def attribute_of(state: State, base: Value, node: ast.Attribute) -> Value:
    """``base.attr`` for a value."""
    name = node.attr
    if base.kinds & v.TENSOR:
        given = isinstance(node.value, ast.Name) and node.value.id in state.unchanged
        held = given or base.flags & (v.SYMBOL | v.BUFFER)  # a leaf, mostly
        if name == "grad_fn" and base.must_be_tensor and not held:
            note_untraced(state, node, base, "grad-fn")
        return _tensor_attribute(base, name)
    if base.kinds == v.NUMPY and name == "dtype" and not base.needs:
        note_untraced(state, node, None, "array")
    if base.kinds & v.INSTANCE and base.cls:
        return _attribute_of_object(state, base, node)
    if name in _DESCRIBED:
        return _DESCRIBED[name]
    if name == "param_groups":
        return PARAMETER_GROUPS
    if base.kinds == v.OTHER:
        return v.OTHER_VALUE
    if base.flags & v.RESULT and base.items:
        index = _RESULT_FIELDS.get(name)
        if index is not None and index < len(base.items):
            return base.items[index]
    if base.kinds & v.SEQUENCE and base.keys is not None:
        return v.entries(base).get(name, v.UNKNOWN_VALUE)
    if base.kinds & v.CALLABLE and base.cls:
        return Value(v.CALLABLE | v.UNKNOWN, cls=f"{v.classes(base)[0]}.{name}")
    return _by_name(state, node) if base.kinds == v.UNKNOWN else v.UNKNOWN_VALUE


def note_untraced(state: State, node: ast.Attribute, base: Value | None, form: str) -> None:
    """Record an attribute that torch.compile does not read."""
    state.event("effect.untraced-call", span_of(node), source_of(node, 40), base, form=form)


def _attribute_of_object(state: State, base: Value, node: ast.Attribute) -> Value:
    """The same of an object whose class is known."""
    name = node.attr
    if is_distribution(base):
        return distribution_attribute(base, name)
    if base.flags & v.MODULE:
        if base.cls in RECURRENT:
            state.event("effect.rnn", span_of(node), base.cls)
        if name in ("weight", "bias", "running_mean", "running_var"):
            return v.tensor(f"`.{name}` of a layer", "float", v.ON_DEVICE, flags=v.BUFFER)
        return v.UNKNOWN_VALUE
    held = v.join_all([_object_attribute(state, cls, node) for cls in v.classes(base)])
    bound = held.kinds & v.CALLABLE or held.flags & v.SYMBOL
    return held._replace(flags=held.flags | (base.flags & v.MADE)) if bound else held


def _by_name(state: State, node: ast.Attribute) -> Value:
    """An attribute of an object of which nothing is known: that of the class of this file whose
    objects have one of this name.
    """
    holder = last_part(node.value).lower()
    cls = "" if holder.endswith(_OF_SETTINGS) else state.module.holder_of(node.attr)
    if not cls:
        return v.UNKNOWN_VALUE
    why = f"`.{node.attr}` of {short(cls)} holds a tensor"
    return symbol(Need("attr", cls, node.attr), why)


def _tensor_attribute(base: Value, name: str) -> Value:
    if name == "shape":
        return v.SHAPE_VALUE
    if name == "device":
        return Value(v.DEVICE, flags=v.DEVICE_CPU if base.device == v.ON_HOST else 0)
    if name == "dtype":
        return Value(v.DTYPE, dtype=base.dtype)
    if name in ops.TENSOR_ATTRIBUTES:
        maybe = v.NONE if name == "grad" else 0
        return base._replace(kinds=base.kinds | maybe, flags=base.flags & ~v.FRESH, ndim=-1)
    if name in _OF_OTHER_DEVICES:
        return constant(False)
    if name in ops.NUMBER_ATTRIBUTES:
        return v.NUMBER_VALUE
    if base.flags & v.SYMBOL:
        return extend(base, "." + name)
    if name in ops.TENSOR_METHODS:  # a method that is called later
        return Value(v.CALLABLE, cls=f"torch.Tensor.{name}", item=base)
    return v.UNKNOWN_VALUE


def _object_attribute(state: State, cls: str, node: ast.Attribute) -> Value:
    """An attribute of an object of a class."""
    name = node.attr
    known = state.module.class_attribute(cls, name)
    if known is not None:
        return known
    if name in ("config", "device", "dtype"):
        return _OF_MODELS[name]
    if state.module.is_property(cls, name):
        return _read_property(state, cls, name, node)
    if state.module.has_method(cls, name):
        return Value(v.CALLABLE | v.UNKNOWN, cls=f"{cls}.{name}")
    return symbol(Need("attr", cls, name), f"`.{name}` of {short(cls)} holds a tensor")


def _read_property(state: State, owner: str, name: str, node: ast.Attribute) -> Value:
    state.record_call("method", owner, name, node, CallSite(ast.Call(node, [], []), [], {}))
    need = Need("return", f"{owner}.{name}", "")
    return returned(state, need, f"{short(owner)}.{name} is a property that returns a tensor")
