"""Calls of functions and classes that the project may define: what is passed and returned."""

from __future__ import annotations

import ast
import sys

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need, call_site
from pygraph_lint.analysis.domain.symbols import symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import has_starred
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.distributions import is_distribution
from pygraph_lint.analysis.syntax.nodes import are_classes, short, source_of, span_of

# Objects of their classes have operators that no project defines.
_NOT_OF_PROJECT = frozenset(("torch", "numpy", "builtins", *sys.stdlib_module_names))


def call_project(state: State, name: str, site: CallSite) -> Value:
    """A call of a function or class that the project may define."""
    node = site.node
    state.record_call("function", name, "", node, site)
    if isinstance(node.func, ast.Name) and not node.args and not node.keywords:
        _note_cached_call(state, name, node)
    fields = state.module.named_tuples.get(name)
    if fields is not None and not has_starred(node):
        return v.named_tuple(fields, [site.get(index, field) for index, field in enumerate(fields)])
    if name in state.module.class_nodes or are_classes((name,)):
        return Value(v.INSTANCE, cls=name, flags=v.MADE)
    return returned(state, result_of(state, name, node), f"{short(name)}() returns a tensor")


def _classes_of_project(value: Value) -> list[str]:
    """The classes of an object that may be the project's; none where it may be anything else."""
    found = v.classes(value) if value.kinds == v.INSTANCE and not value.flags & v.MODULE else []
    return [] if any(cls.partition(".")[0] in _NOT_OF_PROJECT for cls in found) else found


def operator_in_place(
    state: State, node: ast.AugAssign, name: str, held: ast.expr, base: Value
) -> Value | None:
    """What ``a += b`` gives: ``a.__iadd__(b)``, or ``a.__add__(b)`` where there is none."""
    method = f"__i{name}__"
    if not all(state.module.has_method(cls, method) for cls in v.classes(base)):
        method = f"__{name}__"
    return operator_call(state, node, method, held, base, node.value)


def note_operator(state: State, node: ast.AST, one: Value, other: Value, method: str = "") -> None:
    """Record an operator between an object of the project's classes and a tensor: torch.compile
    takes the object for an argument of the tensor's operator. With ``method`` it is one between
    such objects, which torch.compile does not look up in their classes.
    """
    classes = _classes_of_project(one)
    if not classes or not (method or other.needs or other.kinds & ~v.NONE == v.TENSOR):
        return
    if method or other.is_tensor:
        about = Need("operators", ",".join(classes), method)
        why = f"{short(classes[0])} is a class of the project"
        value = Value(v.OTHER, needs=(about, *(() if method else other.needs)), why=why)
        text = source_of(node, 40)
        state.event("effect.untraced-call", span_of(node), text, value, form="operator")


def operator_call(
    state: State, node: ast.AST, method: str, held: ast.expr, base: Value, other: ast.expr | None
) -> Value | None:
    """What an operator gives that an object of the project's classes defines: ``a + b`` calls
    ``a.__add__(b)``. None where the object may be anything else.
    """
    classes = _classes_of_project(base)
    if not classes:
        return None
    name = ast.copy_location(ast.Attribute(held, method, ast.Load()), held)
    call = ast.copy_location(ast.Call(name, [] if other is None else [other], []), node)
    site = CallSite(call, [] if other is None else [state.ev_quiet(other)], {})
    results = []
    for cls in classes:
        state.record_call("object", cls, method, call, site)
        need = result_of(state, f"{cls}.{method}", call)
        result = returned(state, need, f"{short(cls)}.{method}() returns a tensor")
        # Another file's class may be one of a library.
        results.append(result if cls in state.module.class_nodes else v.UNKNOWN_VALUE)
    return v.join_all(results)


def result_of(state: State, function: str, node: ast.Call) -> Need:
    """What a function of the project gives at one call; where arguments are passed with stars, at
    any.
    """
    starred = has_starred(node) or any(keyword.arg is None for keyword in node.keywords)
    shifted = function.endswith(".apply")  # a context comes first
    if starred or shifted or not (node.args or node.keywords):
        return Need("return", function, "")
    return Need(
        "return",
        function,
        "",
        site=call_site(state.function.name, state.function.line, span_of(node)),
    )


def returned(state: State, need: Need, why: str) -> Value:
    """What a function of the project gives: of one in this file dtype, rank, and whether it is
    made on the host are known.
    """
    value = symbol(need, why)
    known = state.module.returned(need.owner)
    if known is not None and is_distribution(known):
        return known
    if known is not None and known.kinds == v.NUMBER and known.flags & v.READ:
        return v.READ_VALUE
    if known is None or not known.is_tensor or known.kinds & (v.SEQUENCE | v.MAPPING):
        return value
    flags = value.flags | (known.flags & v.FLOW)
    made_on_host = known.must_be_tensor and known.device == v.ON_HOST
    device = v.ON_HOST if made_on_host else value.device
    return value._replace(dtype=known.dtype, device=device, ndim=known.ndim, flags=flags)


def _note_cached_call(state: State, name: str, node: ast.Call) -> None:
    """Record a call without arguments: of a memoised function, perhaps."""
    why = f"{short(name)} is cached, and breaks the graph"
    about = Value(v.OTHER, needs=(Need("keeps", name, ""),), why=why)
    state.event("effect.cached-call", span_of(node), f"{short(name)}()", about)


def pass_on(state: State, function: Value, site: CallSite) -> Value:
    """``function`` is called by somebody else with these arguments."""
    node = site.node
    if function.kinds & v.CALLABLE and function.cls:
        for target in function.cls.split(","):
            owner, _, method = target.rpartition(".")
            if owner in state.module.class_nodes:
                state.record_call("method", owner, method, node, site)
            else:
                state.record_call("function", target, "", node, site)
        if are_classes(v.classes(function)):
            return Value(v.INSTANCE, cls=function.cls, flags=v.MADE)
        return returned(
            state, result_of(state, function.cls, node), f"{short(function.cls)}() returns a tensor"
        )
    if function.kinds & v.INSTANCE and function.cls and not function.flags & v.MODULE:
        results = []
        for cls in v.classes(function):
            state.record_call("instance", cls, "forward", node, site)
            need = result_of(state, f"{cls}.forward", node)
            results.append(returned(state, need, f"calling a {short(cls)} gives a tensor"))
        return v.join_all(results)
    return v.UNKNOWN_VALUE
