"""Methods of lists and dictionaries: what they hold is remembered under their name."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import KEYWORDS
from pygraph_lint.analysis.domain.symbols import constant, symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.syntax.nodes import source_of, span_of


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
    if method in ("index", "count", "remove"):
        compared = item if item.is_tensor else site.first
        if compared.is_tensor and not compared.kinds & v.UNKNOWN:
            state.event("branch.membership", span, f".{method}()", compared)
        return v.NUMBER_VALUE
    return base if method in ("copy", "reverse") else v.UNKNOWN_VALUE


def _grow(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> None:
    added = site.positional[-1]
    if method == "extend":
        added = v.iterate(added)
    known = base.item is not None or bool(base.items)
    item = v.join(v.element(base), added) if known else added
    grown = Value(v.SEQUENCE, item=v.shallow(item, 2), flags=base.flags & v.LIST)
    place = state.place(holder)
    if place is None:
        if isinstance(holder, ast.Subscript):  # a list in a dictionary
            around = state.ev_quiet(holder.value)
            if around.kinds == v.MAPPING:
                _keep(state, holder.value, with_entry(around, state.ev_quiet(holder.slice), grown))
        return
    state.env[place] = grown
    if not place.startswith("self."):
        return
    state.module.set_attribute(state.owner, place[5:], state.env[place])
    if added.is_tensor:
        state.event("effect.kept-output", span_of(site.node), source_of(holder), added)


def mapping_method(
    state: State, base: Value, method: str, holder: ast.expr, site: CallSite
) -> Value:
    """``held.get(key)`` and the like."""
    if method in ("get", "pop", "setdefault") and site.positional:
        default = site.get(1, "default", v.NONE_VALUE)
        found = entry(base, site.first)
        if method == "setdefault":
            _keep(state, holder, with_entry(base, site.first, v.join(found, default)))
        known = base.keys is not None and site.first.const in base.keys
        if not known and isinstance(default.const, (bool, str)):  # a switch or a name, no tensor
            return Value(default.kinds | v.UNKNOWN)
        return found if known else v.join(found, default)
    if method == "update":
        grown = merged(base, site.first) if site.positional else base
        for name, value in site.named.items():
            grown = with_entry(grown, constant(name), value)
        _keep(state, holder, grown)
        return v.NONE_VALUE
    if method == "values":
        return Value(v.SEQUENCE, item=v.element(base))
    if method == "items":
        return Value(v.SEQUENCE, item=v.sequence([v.iterate(base), v.element(base)]))
    if method == "keys":
        return Value(v.SEQUENCE, item=v.TEXT_VALUE)
    return base if method == "copy" else v.UNKNOWN_VALUE


def _keep(state: State, holder: ast.expr, value: Value) -> None:
    place = state.place(holder)
    if place is not None:
        state.env[place] = value


def entry(base: Value, index: Value) -> Value:
    """``base[index]`` of a container."""
    key = index.const
    need = base.needs[0] if base.needs and base.flags & v.SYMBOL else None
    if need is not None and need.name == KEYWORDS and isinstance(key, str):
        return symbol(need._replace(name=key), f"a caller passes a tensor as `{key}`")
    if base.keys is not None and base.kinds & v.MAPPING:
        if isinstance(key, (str, int)) and not isinstance(key, bool):
            return v.entries(base).get(key, v.UNKNOWN_VALUE)
        return v.element(base)
    known = base.items if isinstance(key, int) else None
    if known is not None and isinstance(key, int) and -len(known) <= key < len(known):
        return known[int(key)]
    return v.element(base)


def with_entry(base: Value, index: Value, value: Value) -> Value:
    """The container after ``base[index] = value``. Numbers in it may change behind a call, so
    that only their kind is kept.
    """
    key = index.const
    value = v.shallow(value._replace(const=None, flags=value.flags & ~v.LITERAL), 2)
    if base.keys is not None:
        if isinstance(key, (str, int)) and not isinstance(key, bool):
            return v.mapping({**v.entries(base), key: value})
        return Value(v.MAPPING, item=v.join_all([*v.parts(base), value]))
    known = bool(base.items) or base.item not in (None, v.UNKNOWN_VALUE)
    item = v.join(v.element(base), value) if known else value
    return Value(base.kinds & (v.SEQUENCE | v.MAPPING), item=v.shallow(item, 2))


def merged(base: Value, other: Value) -> Value:
    """The dictionary after ``base.update(other)``."""
    if base.keys is not None and other.keys is not None:
        return v.mapping({**v.entries(base), **v.entries(other)})
    rest = other.item if other.item is not None and other.kinds & v.MAPPING else v.UNKNOWN_VALUE
    return Value(v.MAPPING, item=v.join_all([*v.parts(base), *v.parts(other), rest]))
