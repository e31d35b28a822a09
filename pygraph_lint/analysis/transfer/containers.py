"""Methods of lists and dictionaries: what they hold is remembered under their name."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.nodes import source_of, span_of
from pygraph_lint.analysis.state import CallSite, State
from pygraph_lint.analysis.values import Value


def sequence_method(
    state: State, base: Value, method: str, holder: ast.expr, site: CallSite
) -> Value:
    """``held.append(x)`` and the like."""
    span = span_of(site.node)
    item = v.element(base)
    if method in ("append", "add", "insert", "extend") and site.positional:
        _grow(state, base, method, holder, site)
        return v.NONE_VALUE
    if method in ("pop", "popleft"):
        return item
    if method == "sort" and item.is_tensor and "key" not in site.named:
        state.event("branch.sort", span, ".sort()", item)
    if method in ("index", "count"):
        if item.is_tensor:
            state.event("branch.membership", span, f".{method}()", item)
        return v.NUMBER_VALUE
    return base if method in ("copy", "reverse") else v.UNKNOWN_VALUE


def _grow(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> None:
    added = site.positional[-1]
    if method == "extend":
        added = v.element(added)
    place = state.place(holder)
    if place is None:
        return
    known = base.item is not None or bool(base.items)
    item = v.join(v.element(base), added) if known else added
    state.env[place] = Value(v.SEQUENCE, item=v.shallow(item, 2))
    if place.startswith("self.") and added.is_tensor:
        state.event("effect.kept-output", span_of(site.node), source_of(holder), added)


def mapping_method(base: Value, method: str, site: CallSite) -> Value:
    """``held.get(key)`` and the like."""
    item = v.element(base)
    if method in ("get", "pop", "setdefault"):
        return v.join(item, site.positional[1] if len(site.positional) > 1 else v.NONE_VALUE)
    if method == "values":
        return Value(v.SEQUENCE, item=item)
    if method == "items":
        return Value(v.SEQUENCE, item=v.sequence([v.UNKNOWN_VALUE, item]))
    if method == "keys":
        return Value(v.SEQUENCE, item=v.TEXT_VALUE)
    return base if method == "copy" else v.UNKNOWN_VALUE
