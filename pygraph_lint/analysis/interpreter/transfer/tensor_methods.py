"""What methods of tensors give, and what they cost."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need, not_on_host, on_host
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.host_tensors import MADE
from pygraph_lint.analysis.interpreter.state import CallSite, Key, State
from pygraph_lint.analysis.interpreter.transfer.factories import new_tensor, note_generator
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import need_numbers
from pygraph_lint.analysis.interpreter.transfer.operations import note_numbers, torch_operation
from pygraph_lint.analysis.syntax.nodes import dotted, method_name, source_of, span_of

Method = Callable[[State, Value, str, CallSite], Value]

_TAKE_SIZES = frozenset(
    ("view", "reshape", "expand", "repeat", "unflatten", "new_zeros", "new_ones", "new_empty")
)
_IN_PLACE = ("copy_ fill_ zero_ masked_fill_ add_ mul_ requires_grad_ set_ resize_").split()


def tensor_method(state: State, base: Value, method: str, site: CallSite) -> Value:
    """``t.method(...)`` on a tensor."""
    # A parameter may turn it off, as most do, and an autograd Function's backward is traced alone.
    off = method == "requires_grad_" and (
        (site.positional and site.first.const is not True and not base.flags & v.BUFFER)
        or (state.function.name.endswith(".backward") and state.function.parameters[:1] == ("ctx",))
    )
    # A plain tensor becomes an object of a class; back is what breaks.
    off = off or (method == "as_subclass" and site.first.cls != "torch.Tensor")
    if method in state.module.sinks.methods and not off:
        state.event("method", span_of(site.node), f".{method}", base)
    note_generator(state, f".{method}", site)
    handler = _METHODS.get(method)
    if handler is not None:
        result = handler(state, base, method, site)
    elif method in ops.OTHER_METHODS:
        result = v.UNKNOWN_VALUE
    else:
        result = torch_operation(state, method, f".{method}()", site, plain(base))
    if method in ("split", "split_with_sizes"):
        for each in site.node.args:  # what is told by its use: integers
            state.add_note(("sync.tolist", each.lineno, each.col_offset), "whole", "yes")
    if method in _TAKE_SIZES:
        need_numbers(state, site)
    return result


def plain(value: Value) -> Value:
    """The tensor as the result of an operation: no longer the attribute or argument itself."""
    return value._replace(
        flags=value.flags & v.FLOW,
        items=None,
        item=None,
        kinds=value.kinds & v.TENSOR | (value.kinds & v.UNKNOWN),
    )


def _number(state: State, base: Value, method: str, site: CallSite) -> Value:
    if method in ("size", "stride") and not site.everything:
        return v.SHAPE_VALUE
    return v.SIZE_VALUE if method in ("size", "numel", "nelement") else v.NUMBER_VALUE


def _item(state: State, base: Value, method: str, site: CallSite) -> Value:
    # An event with a note replaces an earlier one: the last turn of a loop knows most.
    state.event("sync.item", span_of(site.node), f".{method}()", base, numbers="one")
    return v.READ_VALUE


def _tolist(state: State, base: Value, method: str, site: CallSite) -> Value:
    form = {} if base.dtype in ("float", "complex", "bool") else {"form": "int"}
    if base.dtype == "int":
        form["whole"] = "yes"
    state.event("sync.tolist", span_of(site.node), ".tolist()", base, **form)
    return Value(v.SEQUENCE, item=v.READ_VALUE, flags=v.LIST)


def _numpy(state: State, base: Value, method: str, site: CallSite) -> Value:
    if "force" in site.named:  # else it raises an error for a tensor of the device
        state.event("sync.numpy", span_of(site.node), ".numpy()", base)
    return v.NUMPY_VALUE


def _pin_memory(state: State, base: Value, method: str, site: CallSite) -> Value:
    state.event("host.pinned", span_of(site.node), ".pin_memory()", base)
    return base


def _cast(state: State, base: Value, method: str, site: CallSite) -> Value:
    return plain(base)._replace(dtype=ops.CAST_METHODS[method])


def _type_as(state: State, base: Value, method: str, site: CallSite) -> Value:
    if not site.positional:
        return torch_operation(state, method, f".{method}()", site, plain(base))
    if site.first.is_tensor:
        _note_copies(state, base, method, site.first.device, site)
    first = site.first
    return plain(base)._replace(dtype=first.dtype, device=first.device, device_of=first.device_of)


def _drawn(state: State, base: Value, method: str, site: CallSite) -> Value:
    note_numbers(state, method, site, base)
    return plain(base)._replace(flags=(base.flags | v.RANDOM) & ~v.SYMBOL)


def _in_place(state: State, base: Value, method: str, site: CallSite) -> Value:
    note_numbers(state, method, site, base)
    return plain(base)


def _moved(state: State, base: Value, method: str, site: CallSite) -> Value:
    """``.to(...)``, ``.cuda()``, ``.cpu()``, ``.type(...)``."""
    result, target = plain(base), v.ANYWHERE
    if method == "type" and not site.everything:
        return Value(v.TEXT, base.dtype, base.device, device_of=base.device_of)
    if method == "cpu":
        target = v.ON_HOST
    elif method == "cuda":
        target = v.ON_DEVICE
    else:
        for value in site.everything:
            moved = _moved_to(base, result, target, value, method)
            if moved is not None:
                result, target = moved
            elif value.kinds & v.UNKNOWN and method == "to":
                name = (dotted(site.node.args[0]) if site.node.args else None) or ""
                if name.rpartition(".")[2] in ("device", "_device", "dev"):
                    target = v.ON_DEVICE
                elif "dtype" in name:
                    result = result._replace(dtype="")
                else:
                    return result._replace(dtype="", device=v.ANYWHERE, device_of=None)
            elif method == "type" and (value.kinds & v.TEXT or _may_be_text(value, site)):
                result = result._replace(dtype=value.dtype, device=value.device)
                return result._replace(device_of=value.device_of)
    if method == "type" and site.first.cls == "torch.Tensor":
        subject = source_of(site.node, 40)
        state.event("effect.untraced-call", span_of(site.node), subject, base, form="type")
    _note_copies(state, base, method, target, site)
    return result._replace(device=target, device_of=None) if target != v.ANYWHERE else result


def _may_be_text(value: Value, site: CallSite) -> bool:
    """Whether what ``.type()`` gets may be a text, which names a device, too: ``kind``."""
    name = (dotted(site.node.args[0]) if site.node.args else None) or ""
    return bool(value.kinds & v.UNKNOWN) and "dtype" not in name


def _moved_to(
    base: Value, result: Value, target: int, value: Value, method: str
) -> tuple[Value, int] | None:
    """The result and where it lives, after one argument of ``.to``; None where it says nothing."""
    if value.kinds & v.DTYPE:
        masks = result.dtype == "bool" and method == "type_"
        return result._replace(dtype=value.dtype or ("bool" if masks else "")), target
    if value.kinds == v.TEXT and isinstance(value.const, str):
        return result, v.ON_HOST if value.const == "cpu" else v.ON_DEVICE
    if value.kinds & v.DEVICE:
        return result, v.ON_HOST if value.flags & v.DEVICE_CPU else v.ON_DEVICE
    if value.is_tensor and (not value.needs or not value.flags & v.SYMBOL or value.dtype):
        return result._replace(dtype=value.dtype), value.device
    if value.is_tensor and value.needs[0].kind == "param" and base.flags & v.FRESH:
        return result, v.ON_DEVICE
    return None


def _note_copies(state: State, base: Value, method: str, target: int, site: CallSite) -> None:
    node = site.node
    said = method == "cpu" or any(value.const == "cpu" for value in site.everything)
    waits = site.named.get("non_blocking", v.NONE_VALUE).const is not True
    if (
        waits
        and target == v.ON_HOST
        and (base.device == v.ON_DEVICE or (said and base.device != v.ON_HOST))
    ):
        spelled = ".to('cpu')" if method == "to" else f".{method}()"
        state.event("sync.copy", span_of(node), spelled, base)
    like = next(
        (each.device_of for each in site.everything if each.is_tensor and each.device_of), None
    )
    if not waits and method_name(getattr(node.func, "value", node)) == "pin_memory":
        return
    if target == v.ON_DEVICE and base.device == v.ON_HOST:
        _note_moved(state, base, node)
    elif target == v.ANYWHERE and base.device == v.ON_HOST and like is not None:
        kept = base._replace(needs=(*base.needs, not_on_host(like)))
        state.event("host.moved", span_of(node), source_of(node, 40), kept)
    elif (
        target == v.ON_DEVICE
        and base.device_of is not None
        and _is_made_elsewhere(state, base.device_of)
    ):
        host_tensor = v.tensor("made on the host", needs=(on_host(base.device_of),))
        state.event("host.moved", span_of(node), source_of(node, 40), host_tensor)


def _is_made_elsewhere(state: State, device_of: Need) -> bool:
    """Whether nothing is said where a tensor that may be one of the host is made: it is what a call
    gives, or a parameter's default.
    """
    made = device_of.kind == "param" and dict(state.function.defaults).get(device_of.name)
    return device_of.kind == "return" or (bool(made) and device_of.owner == state.function.name)


def _note_moved(state: State, base: Value, node: ast.Call) -> None:
    """A host tensor copied to the device: one event for the pair of factory and move."""
    inner = node.func.value if isinstance(node.func, ast.Attribute) else None
    number = _made_of_number(state, inner)
    if number is not None:
        scalar = state.events.pop(number)
        state.event("host.data-tensor", scalar.span, scalar.subject, number="yes")
        return
    if isinstance(inner, ast.Call):
        for kind in MADE:
            key = (kind, inner.lineno, inner.col_offset)
            made = state.events.get(key)
            if made is not None:
                if kind == "host.factory":
                    del state.events[key]
                    notes = {"drawn": "yes"} if base.flags & v.RANDOM else {}
                    state.event("host.factory-moved", span_of(node), made.subject, base, **notes)
                return
    state.event("host.moved", span_of(node), source_of(node, 40), base)


def _made_of_number(state: State, node: ast.expr | None) -> Key | None:
    """The event of the tensor of a number that a chain of methods begins with."""
    while isinstance(node, ast.Call):
        key = ("host.scalar-tensor", node.lineno, node.col_offset)
        if key in state.events:
            return key
        node = node.func.value if isinstance(node.func, ast.Attribute) else None
    return None


_METHODS: dict[str, Method] = {
    **dict.fromkeys(_IN_PLACE, _in_place),
    **dict.fromkeys(ops.RANDOM_METHODS, _drawn),
    "type_as": _type_as,
    **dict.fromkeys((*ops.NEW_FACTORIES, *ops.FACTORIES_LIKE), new_tensor),
    **dict.fromkeys(ops.CAST_METHODS, _cast),
    **dict.fromkeys(("to", "cuda", "cpu", "type"), _moved),
    "pin_memory": _pin_memory,
    "numpy": _numpy,
    "tolist": _tolist,
    **dict.fromkeys(("item", "__index__", "__int__", "__float__"), _item),
    **dict.fromkeys(ops.NUMBER_METHODS, _number),
}
