"""Calls of what a variable or an attribute holds."""

from __future__ import annotations

import ast
import sys

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.symbols import extend
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.project_calls import pass_on
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import merge_device
from pygraph_lint.analysis.interpreter.transfer.layers import apply_layer
from pygraph_lint.analysis.interpreter.transfer.tensor_methods import tensor_method
from pygraph_lint.analysis.interpreter.transfer.torch_functions import call_torch
from pygraph_lint.analysis.syntax.nodes import are_classes, short, source_of, span_of

LIBRARIES = frozenset(sys.stdlib_module_names) | {
    *("torch", "numpy", "builtins", "einops", "PIL", "scipy", "jax"),
}
"""Packages whose functions are not of the project."""


def call_value(state: State, value: Value, site: CallSite) -> Value:
    """Something held in a variable is called."""
    if value.flags & v.MADE and not value.kinds & v.INSTANCE:
        owner, _, method = value.cls.rpartition(".")
        if value.needs and value.needs[0].kind == "attr":
            owner, method = value.needs[0].owner, value.needs[0].name
        note_bound_method(state, owner, method, site)
    if value.flags & v.MODULE:
        return apply_layer(state, value, site)
    if value.kinds == v.CALLABLE and value.item is not None:  # a tensor's method, bound before
        return tensor_method(state, value.item, value.cls.rpartition(".")[2], site)
    if value.kinds & v.CALLABLE and value.cls:
        return _call_one_of(state, value, site)
    if value.kinds & v.INSTANCE and value.cls:
        function = site.node.func
        if isinstance(function, ast.Name) and function.id in state.unchanged:
            state.record_call("given", state.function.name, function.id, site.node, site)
        return pass_on(state, value, site)
    if value.flags & v.SYMBOL and value.needs:
        return _call_symbol(state, value, site)
    return v.UNKNOWN_VALUE


def _call_symbol(state: State, value: Value, site: CallSite) -> Value:
    """What other files decide about is called: an attribute, a result, or an element of one."""
    need = value.needs[0]
    element = need.name.removeprefix("|")
    if need.kind == "attr":
        state.record_call("attribute", need.owner, need.name, site.node, site)
    elif need.kind == "param" and "|" not in need.name:
        state.record_call("given", need.owner, need.name, site.node, site)
    elif need.kind == "return" and element.strip("0123456789") == "":
        state.record_call("result", need.owner, f"{element}|", site.node, site)
    return extend(value, "()")


def _call_one_of(state: State, value: Value, site: CallSite) -> Value:
    """A function, or one of several: those of the project say what the call gives."""
    names = v.classes(value)
    own = [name for name in names if name.partition(".")[0] not in LIBRARIES]
    if own:
        return pass_on(state, value._replace(cls=",".join(own)), site)
    if not all(name.startswith("torch.") for name in names):
        return v.UNKNOWN_VALUE
    if are_classes(names):
        head, _, tail = names[0].rpartition(".")
        return call_torch(state, names[0], head, tail, site)
    return v.tensor(f"{names[0]} returns a tensor", device=merge_device(site.everything))


def note_bound_method(state: State, classes: str, method: str, site: CallSite) -> None:
    """Record a method call on an object that the function itself makes: where the graph ends in the
    method, the bound method cannot be handed on to the code behind.
    """
    why = f"the graph ends in {short(classes.partition(',')[0])}.{method}()"
    _note_made(state, Need("ends", classes, method), why, site)


def note_method_of_result(state: State, base: Value, method: str, site: CallSite) -> None:
    """The same of an object that a function makes here, or that is made of a class it gives."""
    made = base.needs[0] if base.needs else None
    if made is not None and made.kind == "return" and made.name in ("", "|()"):
        need = Need("ends", "", method, ((made._replace(site=""),),))
        _note_made(state, need, f"the graph ends in .{method}() of what is made here", site)


def _note_made(state: State, need: Need, why: str, site: CallSite) -> None:
    about = Value(v.OTHER, needs=(need,), why=why)
    subject = source_of(site.node.func, 40)
    state.event("effect.made-object", span_of(site.node), subject, about)
