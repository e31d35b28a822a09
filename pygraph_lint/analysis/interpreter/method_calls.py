"""Calls of methods: of the object itself, of tensors, modules and containers, of anything."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.symbols import extend, is_given, is_result, symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import arguments, note_formatted
from pygraph_lint.analysis.interpreter.attributes import PARAMETER, RECURRENT
from pygraph_lint.analysis.interpreter.inference_from_uses import is_of_tensors
from pygraph_lint.analysis.interpreter.project_calls import result_of, returned
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.containers import mapping_method, sequence_method
from pygraph_lint.analysis.interpreter.transfer.distributions import (
    distribution_method,
    is_distribution,
)
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import array_method
from pygraph_lint.analysis.interpreter.transfer.tensor_methods import tensor_method
from pygraph_lint.analysis.interpreter.value_calls import (
    LIBRARIES,
    call_value,
    note_bound_method,
    note_method_of_result,
)
from pygraph_lint.analysis.program.facts import ANY_NAME
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, short, source_of, span_of

_LOG_METHODS = frozenset(
    """
        debug info warning warn error critical exception log warning_once info_once debug_once
        warning_advice warning_rank0 info_rank0 error_once fatal
    """.split()
)
_MAKE_LOGGERS = ("opt", "bind", "patch", "getChild")
_REGISTER = ("register_buffer", "register_parameter", "add_module", "register_module", "add_state")
# Methods of modules that give their tensors.
_HELD: dict[str, Value] = {
    **dict.fromkeys(("parameters", "buffers"), Value(v.SEQUENCE, item=PARAMETER)),
    **dict.fromkeys(
        ("named_parameters", "named_buffers"),
        Value(v.SEQUENCE, item=v.sequence([v.TEXT_VALUE, PARAMETER])),
    ),
}
_TENSOR_KINDS = {
    "register_buffer": "buffer",
    "register_parameter": "parameter",
    "add_state": "state",
}
_TEXT_TO_NUMBER = ("startswith", "endswith", "find", "count")
_OWN_METHODS = ("get_", "compute_", "_", "prepare_", "forward")


def call_method(state: State, function: ast.Attribute, node: ast.Call) -> Value:
    """``value.method(...)``."""
    holder = function.value
    maker = holder.func if isinstance(holder, ast.Call) else None
    if isinstance(maker, ast.Name) and maker.id == "super":
        return _call_on_super(state, function.attr, arguments(state, node))
    if state.is_self(holder):
        return _call_on_self(state, function.attr, node)
    base = state.ev(holder)
    method = function.attr
    if method in ops.HOOK_METHODS:
        state.event("effect.module-hook", span_of(node), method)
    site = arguments(state, node)
    if base.flags & v.LOGGER:
        if method in _MAKE_LOGGERS:
            return base
        if method in _LOG_METHODS:
            form = {"form": "loguru"} if base.cls == "loguru.logger" else {}
            state.event(
                "effect.log", span_of(node), dotted(function) or f"logger.{method}", None, **form
            )
        return v.NONE_VALUE
    if base.cls and state.module.sinks.has_call(f"{base.cls}.{method}"):
        state.event("call", span_of(node), f"{base.cls}.{method}")
    first, known = site.first, base.cls or not base.kinds & v.UNKNOWN
    if method in ops.OF_ARRAYS and first.must_be_tensor and not known:
        return v.tensor(first.why, device=first.device, device_of=first.device_of)
    return _method_on(state, base, method, holder, site)


def _call_on_super(state: State, method: str, site: CallSite) -> Value:
    state.record_call("super", state.owner, method, site.node, site)
    if method == "__init__" and state.owner:
        about = Value(v.TENSOR, needs=(Need("module", state.owner, ""),))
        subject, form = "super().__init__()", "module"
        state.event("effect.parameter-made", span_of(site.node), subject, about, form=form)
    need = result_of(state, f"super:{state.owner}.{method}", site.node)
    return symbol(need, f"super().{method}() returns a tensor")


def _call_on_self(state: State, name: str, node: ast.Call) -> Value:
    """``self.method(...)`` and ``self.layer(...)``."""
    owner = state.owner
    stored = state.env.get("self." + name) or state.module.class_attribute(owner, name)
    site = arguments(state, node)
    if stored is not None and not (
        stored.kinds == v.CALLABLE and stored.cls.startswith(owner + ".")
    ):
        return call_value(state, stored, site)
    if name in _REGISTER:
        _register(state, name, site)
        return v.NONE_VALUE
    if name in _HELD and not state.module.has_method(owner, name):
        return _HELD[name]
    state.record_call("method", owner, name, node, site)
    if name.startswith(_OWN_METHODS) or state.module.has_method(owner, name):
        need = result_of(state, f"{owner}.{name}", node)
        return returned(state, need, f"self.{name}() returns a tensor")
    return extend(symbol(Need("attr", owner, name), f"`self.{name}` returns a tensor"), "()")


def _register(state: State, how: str, site: CallSite) -> None:
    """``self.register_buffer(name, tensor)`` makes an attribute."""
    node = site.node
    if not node.args:
        return
    name = str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else ANY_NAME
    names = ("tensor", "param", "default")
    given = next((site.named[each] for each in names if each in site.named), v.NONE_VALUE)
    value = site.get(1, "", given)
    if how in _TENSOR_KINDS and not value.kinds & v.SEQUENCE:
        kind = _TENSOR_KINDS[how]
        why = f"`self.{name}` is a {kind}"
        held = v.tensor(why, value.dtype, v.ON_DEVICE, value.ndim, v.BUFFER)
        value = held._replace(kinds=held.kinds | (value.kinds & v.NONE))
    state.module.set_attribute(state.owner, name, value)


def _drawn(state: State, method: str, site: CallSite) -> Value:
    """A draw from an object of Python's class of generators, of which torch traces some."""
    if method == "random" or f"random.{method}" in ops.TRACED_DRAWS:
        why = f"`{source_of(site.node, 40)}` draws anew in each call"
        return Value(v.NUMBER, flags=v.RANDOM, why=why)
    if state.module.sinks.has_call(f"random.{method}"):
        state.event("call", span_of(site.node), f"random.{method}")
    return v.NUMBER_VALUE


def _method_on(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> Value:
    """A method of a value."""
    if is_distribution(base):
        return distribution_method(state, base, method, site)
    if base.kinds == v.INSTANCE and base.cls == "numpy.random.Generator":
        state.event("effect.numpy-random", span_of(site.node), f"{base.cls}.{method}")
        return v.NUMBER_VALUE
    if base.kinds == v.INSTANCE and base.cls == "random.Random":
        return _drawn(state, method, site)
    if method in _HELD and not any(state.module.has_method(c, method) for c in v.classes(base)):
        return _HELD[method]
    base = _by_method(state, base, method, holder, site)
    if base.is_tensor:
        return _method_of_tensor(state, base, method, site)
    if base.kinds & v.INSTANCE and base.flags & v.MODULE:
        return _method_of_module(state, base, method, site)
    if base.kinds & v.INSTANCE and base.cls:
        return _method_of_object(state, base, method, site)
    return _method_of_builtin(state, base, method, holder, site)


def _method_of_tensor(state: State, base: Value, method: str, site: CallSite) -> Value:
    """A method of what is a tensor, if what its symbol stands for is one."""
    if method in ops.TENSOR_METHODS or not base.flags & v.SYMBOL:
        known = method in ops.TENSOR_METHODS or method in state.module.sinks.methods
        if known or base.needs or base.kinds & v.UNKNOWN:
            return tensor_method(state, base, method, site)
        return v.UNKNOWN_VALUE  # it is none, whatever its annotation says
    if base.cls and base.kinds & v.INSTANCE:
        state.record_call("object", base.cls, method, site.node, site)
    else:
        _note_named(state, method, site)
    note_method_of_result(state, base, method, site)
    return extend(extend(base, "." + method), "()")


def _method_of_module(state: State, base: Value, method: str, site: CallSite) -> Value:
    """A method of a layer of torch.nn, or of a compiled module."""
    if method in ("forward", "__call__"):
        return call_value(state, base, site)
    if base.cls in RECURRENT:
        state.event("effect.rnn", span_of(site.node), base.cls)
    return base if method in ops.GIVE_THE_MODULE else v.UNKNOWN_VALUE


def _method_of_builtin(
    state: State, base: Value, method: str, holder: ast.expr, site: CallSite
) -> Value:
    """A method of a list, a dictionary, a text, an array, or of something else."""
    if base.kinds & v.SEQUENCE:
        return sequence_method(state, base, method, holder, site)
    if base.kinds & v.MAPPING:
        return mapping_method(state, base, method, holder, site)
    if base.kinds & v.TEXT and not base.kinds & v.UNKNOWN:
        return _text_method(state, method, site)
    if base.kinds & v.NUMPY:
        return array_method(state, base, method, holder, site)
    return _method_on_other(state, base, method, site)


def _by_method(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> Value:
    """The value, after what calling this method on it says."""
    fits = not (site.node.args and method in ops.WITHOUT_ARGUMENTS)
    if is_given(base) and (
        method == "requires_grad_"  # as modules have
        or (method in ops.PRODUCTS and site.first.must_be_tensor and not base.cls)
    ):
        return base._replace(needs=(), why=f"it has .{method}()")
    if method in ("item", "tolist") and not site.everything and is_given(base):
        state.function.takes_tensors |= bool(base.kinds & v.UNKNOWN)
        base = base._replace(needs=(), why=f"only a tensor has .{method}()")
    if fits and method in ops.ARRAY_METHODS and _is_computed(base, holder):
        base = base._replace(needs=(), why=f"only an array has .{method}()")
    if (base.needs or base.kinds & v.UNKNOWN) and (
        is_of_tensors(method, site.node)
        or (fits and method in ops.ARRAY_METHODS and is_result(base))
    ):
        base = _learned(state, base, method, holder)
    return base


def _is_computed(value: Value, node: ast.expr) -> bool:
    """Whether a value is calculated from others, at least one of which may be a tensor: it is a
    tensor or a number.
    """
    written = isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp))
    return written and value.kinds == v.TENSOR and bool(value.needs)


def _learned(state: State, base: Value, method: str, holder: ast.expr) -> Value:
    """The value whose method only a tensor has; so it is a tensor from here on."""
    if base.kinds & ~(v.UNKNOWN | v.TENSOR | v.NONE) or not (base.needs or base.kinds == v.UNKNOWN):
        return base
    state.function.takes_tensors = True
    why = base.why if base.is_tensor and not base.needs else f"only a tensor has .{method}()"
    flags = base.flags & v.FLOW
    known = v.tensor(why, base.dtype, base.device, base.ndim, flags, device_of=base.device_of)
    place = state.place(holder)
    if place is not None:
        state.env[place] = known
    return known


def _method_of_object(state: State, base: Value, method: str, site: CallSite) -> Value:
    """A method of an object of the project's classes."""
    if base.flags & v.MADE:
        note_bound_method(state, base.cls, method, site)
    given = [_method_of(state, cls, method, site) for cls in v.classes(base)]
    itself = method in ops.GIVE_THE_MODULE and _gives_itself(state, base, method)
    return base if itself else v.join_all(given)


def _gives_itself(state: State, base: Value, method: str) -> bool:
    """Whether an object's method is that of nn.Module, which gives the object, as far as this file
    says: ``train`` of other files' classes may be anything.
    """
    own = state.module.class_nodes
    return all(
        not state.module.has_method(cls, method) if cls in own else method != "train"
        for cls in v.classes(base)
    )


def _method_of(state: State, cls: str, method: str, site: CallSite) -> Value:
    """A method of an object of a class."""
    state.record_call("object", cls, method, site.node, site)
    need = result_of(state, f"{cls}.{method}", site.node)
    return returned(state, need, f"{short(cls)}.{method}() returns a tensor")


def _text_method(state: State, method: str, site: CallSite) -> Value:
    if method == "format":
        for value in site.everything:
            note_formatted(state, value, site.node)
    return v.NUMBER_VALUE if method in _TEXT_TO_NUMBER else v.TEXT_VALUE


def _method_on_other(state: State, base: Value, method: str, site: CallSite) -> Value:
    """A method of a function, a class, or of something nobody knows."""
    if base == v.GENERATOR_VALUE:
        return _method_of_generator(state, base, method, site.node)
    if base.kinds & v.CALLABLE and base.cls:
        if base.cls.partition(".")[0] in LIBRARIES:
            return v.UNKNOWN_VALUE
        name = f"{base.cls}.{method}"
        state.record_call("function", name, "", site.node, site)
        need = result_of(state, name, site.node)
        return symbol(need, f"{short(name)}() returns a tensor")
    if base.kinds & v.UNKNOWN:
        if method == "type" and not site.everything:
            return Value(v.TEXT | v.UNKNOWN)
        reads = method in ops.READING_METHODS and not site.node.args
        other = site.node.args and method in ops.WITHOUT_ARGUMENTS
        reads |= method in ops.PRODUCTS and site.first.must_be_tensor and not base.cls
        if reads or (method in ops.TENSOR_ONLY_METHODS and not other):
            believed = v.tensor(f"only a tensor has .{method}()", device=v.ANYWHERE)
            return tensor_method(state, believed, method, site)
        if base.cls:
            state.record_call("object", base.cls, method, site.node, site)
        elif _note_named(state, method, site):
            need = Need("return", "", f"|.{method}|()")
            return symbol(need, f".{method}() of the project returns a tensor")
    return v.UNKNOWN_VALUE


def _method_of_generator(state: State, base: Value, method: str, node: ast.Call) -> Value:
    """A method of a generator; where it is made, that is reported."""
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Call):
        place = span_of(node)
        state.event("effect.generator", place, f"torch.Generator.{method}", waits="no")
    return base if method == "manual_seed" else v.OTHER_VALUE


def _note_named(state: State, method: str, site: CallSite) -> bool:
    """Record the call of a method by its name, unless other objects than the project's have it."""
    common = method in ops.COMMON_METHODS and not (method == "step" and len(site.node.args) > 1)
    if method.startswith("__") or method in ops.TENSOR_METHODS or common:
        return False
    called = site.node.func
    name = last_part(called.value) if isinstance(called, ast.Attribute) else ""
    state.record_call("by name", name, method, site.node, site)
    return True
