"""numpy inside a region: torch.compile traces it as tensors, so its results have no value there."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.nodes import source_of, span_of
from pygraph_lint.analysis.state import CallSite, State
from pygraph_lint.analysis.values import Value

# From several numbers to one. (A function of a single number is worked out while tracing.)
_REDUCTIONS = frozenset(f"numpy.{name}" for name in ("sum", "prod", "max", "min", "amax", "amin"))
# Of two numbers: arithmetic with the result is traced, a condition on it is not.
_DIVISORS = frozenset(("numpy.lcm", "numpy.gcd"))
# What is drawn while tracing, and the place of the argument that says how many.
_SIZE_PLACES = {
    **dict.fromkeys(("rand", "randn", "random", "random_sample", "sample", "shuffle"), 0),
    **dict.fromkeys(("normal", "uniform", "randint"), 2),
}
_MADE_WITH_SIZES = frozenset(f"numpy.{name}" for name in ("zeros", "ones", "empty", "full"))
# At least: of the arrays, or the tuples of arrays, that indices are made of.
_RANKS = {
    **dict.fromkeys(("arange", "argsort", "unique", "flatnonzero", "random.permutation"), 1),
    **dict.fromkeys(("tril_indices", "triu_indices", "diag_indices", "nonzero"), 2),
}


def call_numpy(state: State, name: str, site: CallSite) -> Value:
    """numpy functions called on tensors copy them to the host."""
    node = site.node
    draws = name.startswith("numpy.random.") and name != "numpy.random.seed"
    if draws and not state.module.sinks.has_call(name):
        form = {"form": "array"} if _draws_array(name, site) else {}
        state.event("effect.numpy-random", span_of(node), name, None, **form)
    if name in _MADE_WITH_SIZES and node.args:
        needs_number(state, node.args[0])
    for value in site.everything:
        for part in (value, *(value.items or ())):
            if part.is_tensor and not (part.kinds & v.UNKNOWN):
                state.event("sync.numpy", span_of(node), name, part)
                return v.NUMPY_VALUE
    if name in _DIVISORS and len(node.args) == 2:
        state.event("host.numpy-number", span_of(node), name)
    return v.NUMPY_VALUE._replace(ndim=_RANKS.get(name.removeprefix("numpy."), -1))


def _draws_array(name: str, site: CallSite) -> bool:
    """Whether a draw gives an array, which torch.compile traces; a number it would have to read."""
    place = _SIZE_PLACES.get(name.removeprefix("numpy.random."))
    if place is None:
        return False
    return len(site.positional) > place or site.named.get("size", v.NONE_VALUE).kinds != v.NONE


def needs_number(state: State, node: ast.expr) -> None:
    """Record that the value of ``node``, or of each of a tuple's elements, is needed while
    tracing.
    """
    for part in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
        if isinstance(part, ast.Subscript) and not isinstance(part.slice, ast.Slice):
            _element(state, part)
        if not isinstance(part, ast.Call):
            continue
        name = state.qualified(part.func)
        several = len(part.args) == 1 and not _has_one_element(part.args[0])
        place = span_of(part)
        read = state.events.get(("sync.numpy", place.line, place.column))
        if name in _REDUCTIONS and several and (read is None or read.needs):
            state.event("host.numpy-number", place, name)


def _element(state: State, node: ast.Subscript) -> None:
    """An element of an array that numpy made of Python numbers."""
    if state.ev_quiet(node).kinds == v.NUMPY:
        state.event("host.numpy-number", span_of(node), source_of(node))


def array_item(state: State, holder: ast.expr, node: ast.Call) -> None:
    """``.item()`` of what numpy made: a conversion in between hides the value."""
    needs_number(state, holder)
    place = span_of(holder)
    key = ("effect.numpy-random", place.line, place.column)
    if key in state.events:  # of an array that is drawn the value is needed now
        state.events[key] = state.events[key]._replace(notes=())
    function = holder.func if isinstance(holder, ast.Call) else None
    if isinstance(function, ast.Attribute) and function.attr == "astype":
        state.event("host.numpy-number", span_of(node), "astype(...).item()")


def _has_one_element(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1
