"""Assignment to names, attributes and subscripts."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.symbols import extend, is_symbol
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.host_tensors import MADE
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.interpreter.subscripts import (
    POSITION,
    by_mask,
    given_mask,
    index_parts,
    is_flag,
    masked,
    names_one,
    names_place,
    note_host_index,
)
from pygraph_lint.analysis.interpreter.transfer.containers import with_entry
from pygraph_lint.analysis.syntax.nodes import source_of, span_of


def assign(state: State, target: ast.expr, value: Value, source: ast.expr | None) -> None:
    """Bind a target to a value."""
    if isinstance(target, ast.Name):
        _assign_name(state, target, value, source)
    elif isinstance(target, (ast.Tuple, ast.List)):
        unpack(state, target, _in_order(state, target, source) or value)
    elif isinstance(target, ast.Attribute):
        assign_attribute(state, target, value, source)
    elif isinstance(target, ast.Subscript):
        store_subscript(state, target, value)
        if isinstance(source, ast.Call) and state.ev_quiet(target.value).device == v.ON_HOST:
            for kind in MADE:  # it is written to a tensor of the host
                state.events.pop((kind, source.lineno, source.col_offset), None)


def _assign_name(state: State, target: ast.Name, value: Value, source: ast.expr | None) -> None:
    flat = value.items is None and value.item is None
    state.env[target.id] = value if flat else v.shallow(value)
    state.origins.pop(target.id, None)
    state.sized.pop(target.id, None)
    if value.flags & (v.DYNAMIC | v.READ) and source is not None:
        state.sized[target.id] = source
    if isinstance(source, ast.Call) and value.is_tensor:
        for kind in MADE:
            key = (kind, source.lineno, source.col_offset)
            if key in state.events:
                state.origins[target.id] = key


def _in_order(state: State, target: ast.Tuple | ast.List, source: ast.expr | None) -> Value | None:
    """``*x.shape, a, b`` for as many names: what is unpacked takes those that the others leave."""
    written = source.elts if isinstance(source, (ast.Tuple, ast.List)) else []
    stars = [at for at, each in enumerate(written) if isinstance(each, ast.Starred)]
    left = len(target.elts) - len(written) + 1
    if len(stars) != 1 or left < 0 or any(isinstance(e, ast.Starred) for e in target.elts):
        return None
    parts = [state.ev_quiet(each) for each in written]
    (at,) = stars
    return v.sequence([*parts[:at], *[v.iterate(parts[at])] * left, *parts[at + 1 :]])


def unpack(state: State, target: ast.Tuple | ast.List, value: Value) -> None:
    """``a, b = value``."""
    count = len(target.elts)
    starred = any(isinstance(element, ast.Starred) for element in target.elts)
    known = value.items is not None and not (value.kinds & v.MAPPING)
    if known and len(value.items or ()) == count and not starred:
        for element, part in zip(target.elts, value.items or ()):
            assign(state, element, part, None)
        return
    for index, element in enumerate(target.elts):
        if isinstance(element, ast.Starred):
            assign(state, element.value, Value(v.SEQUENCE, item=v.iterate(value)), None)
        elif is_symbol(value) and value.needs:
            assign(state, element, extend(value, str(index)), None)
        else:
            assign(state, element, v.iterate(value), None)


def _assign_own_attribute(
    state: State, target: ast.Attribute, value: Value, source: ast.expr | None
) -> None:
    """``self.x = value``."""
    held = state.module.class_attribute(state.owner, target.attr)
    if held is not None and held.flags & v.BUFFER and held.is_tensor and value.is_tensor:
        state.event("effect.buffer-rebound", span_of(target), f"self.{target.attr}", held)
    elif value.is_tensor and not value.needs and not value.kinds & v.UNKNOWN:
        state.event("effect.kept-output", span_of(target), f"self.{target.attr}", value)
    state.env["self." + target.attr] = value
    if source is not None and _is_moved(state, target, source):  # by the first call only
        state.events.pop(("host.moved", source.lineno, source.col_offset), None)
    overwritten = target.lineno < state.last_stores.get(target.attr, 0)
    if not (overwritten or _moves_itself(state, target, source)):
        state.module.set_attribute(state.owner, target.attr, as_held(value))


def assign_attribute(
    state: State, target: ast.Attribute, value: Value, source: ast.expr | None
) -> None:
    """``self.x = value``, ``t.requires_grad = ...``, ``t.data = ...``."""
    holder = target.value
    if isinstance(holder, ast.Name) and state.self_name and holder.id == state.self_name:
        _assign_own_attribute(state, target, value, source)
        return
    base = state.ev(target.value)
    if base.is_tensor and (
        not base.flags & v.SYMBOL or target.attr in ("data", "requires_grad", "grad")
    ):
        if target.attr == "requires_grad":
            state.event("effect.requires-grad", span_of(target), f"{source_of(target)} = ...", base)
        elif target.attr == "data":
            made_before = isinstance(target.value, ast.Attribute) or base.flags & v.BUFFER
            form = {"form": "input"} if made_before else {}
            subject = f"{source_of(target)} = ..."
            state.event("effect.data-assign", span_of(target), subject, base, **form)


def _moves_itself(state: State, target: ast.Attribute, source: ast.expr | None) -> bool:
    """``self.x = self.x.to(...)``: what the first call finds is still what others stored."""
    known = state.module.class_attribute(state.owner, target.attr)
    return (
        _is_moved(state, target, source)
        and known is not None
        and state.env[f"self.{target.attr}"].device != v.ON_HOST
    )


def _is_moved(state: State, target: ast.Attribute, source: ast.expr | None) -> bool:
    """Whether ``self.x`` is bound to itself on another device."""
    function = source.func if isinstance(source, ast.Call) else None
    if not isinstance(function, ast.Attribute) or function.attr not in ("to", "cuda", "type_as"):
        return False
    moved = function.value
    return (
        isinstance(moved, ast.Attribute)
        and state.is_self(moved.value)
        and moved.attr == target.attr
    )


def as_held(value: Value) -> Value:
    """A value as an attribute keeps it: a host tensor that is no buffer stays behind when the
    model moves. What is annotated as a number is one.
    """
    if value.is_doubtful_number:
        return v.NUMBER_VALUE
    if (
        value.is_tensor
        and not value.needs
        and not value.flags & v.BUFFER
        and value.device == v.ON_HOST
    ):
        return value._replace(
            flags=value.flags | v.PLAIN,
            why="a plain tensor attribute, neither parameter nor buffer",
        )
    if value.kinds == v.NUMPY:  # a number that is an input is known while tracing
        return value._replace(flags=value.flags | v.LITERAL)
    return v.shallow(value, 2)


def _by_unknown(state: State, index: ast.expr, base: Value) -> bool:
    """Whether all axes of a tensor are indexed with what is not known: numbers or tensors."""
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return (
        len(parts) > 1
        and base.ndim in (-1, len(parts))
        and all(state.ev_quiet(part).kinds & v.UNKNOWN for part in parts)
        and not any(isinstance(part, (ast.Slice, ast.Constant)) for part in parts)
    )


def store_subscript(state: State, target: ast.Subscript, value: Value) -> None:
    """``base[index] = value``."""
    base = state.ev(target.value)
    if by_mask(state, base, target):
        base = masked(base)
    if base.is_tensor and not (base.kinds & (v.SEQUENCE | v.MAPPING) and base.kinds & v.UNKNOWN):
        _note_store_to_tensor(state, target, base, value)
    else:
        _store_entry(state, target, base, value)


def _note_store_to_tensor(state: State, target: ast.Subscript, base: Value, value: Value) -> None:
    """Record what ``tensor[index] = value`` costs."""
    mask, lists, gathered, number = index_parts(state, target.slice)
    fills, notes, text = _is_number(value), {}, source_of(target, 40)
    if fills and number is not None and names_one(state, target.slice, base.ndim):
        gathered, notes = number._replace(needs=()), {"element": "yes"}
    elif fills and _by_unknown(state, target.slice, base):
        gathered = base
    if mask is not None:
        if not fills:  # a fill neither waits nor breaks
            _note_masked(state, target, base, mask, value)
    elif gathered is not None and fills and base.device != v.ON_HOST:
        about = base._replace(needs=base.needs + gathered.needs * (gathered is not base))
        if gathered.is_tensor and gathered is not base and names_place(gathered):
            notes = {**notes, "form": "place", "decides": "yes"}
        elif gathered is not base and is_flag(gathered):
            notes = {"form": "flag", "flag": "yes"}
        state.event("sync.index-write", span_of(target), text, about, **notes)
    elif gathered is not None and is_flag(gathered):
        _note_masked(state, target, base, gathered, value, form="flag")
    elif gathered is not None and names_place(gathered):
        state.event("shape.from-value", span_of(target), text, gathered, **POSITION)
    elif lists is not None and base.device != v.ON_HOST:
        state.event("host.index-list", span_of(target), text, base._replace(why=""))
    elif gathered is not None and (given := given_mask(gathered)) is not None:
        about = base._replace(needs=(*base.needs, given))
        _note_masked(state, target, about, gathered, value)
    else:
        note_host_index(state, target, base, gathered)


def _note_masked(
    state: State, target: ast.Subscript, base: Value, mask: Value, value: Value, **notes: str
) -> None:
    """A tensor is written where a mask says so."""
    about = base if base.needs else base._replace(needs=mask.needs, why=mask.why or base.why)
    if value.flags & v.SYMBOL:  # a number would be filled in
        about = about._replace(needs=(*about.needs, *value.needs))
    text = source_of(target, 40)
    state.event("shape.mask-write", span_of(target), text, about, **notes)


def _store_entry(state: State, target: ast.Subscript, base: Value, value: Value) -> None:
    """``base[index] = value`` of a container."""
    index = state.ev(target.slice)
    place = state.place(target.value)
    if place is not None and base.kinds & (v.MAPPING | v.SEQUENCE):
        state.env[place] = with_entry(base, index, value)
        if place.startswith("self.") and value.is_tensor:
            state.event("effect.kept-output", span_of(target), source_of(target.value, 40), value)


def _is_number(value: Value) -> bool:
    """Whether a value is a number, as far as is known here."""
    if value.is_tensor:
        return value.kinds == v.TENSOR | v.NUMBER and bool(value.needs)
    return bool(value.kinds & (v.NUMBER | v.OTHER))
