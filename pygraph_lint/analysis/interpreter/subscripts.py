"""Subscripts that are read."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need, any_of, not_on_host, on_host
from pygraph_lint.analysis.domain.symbols import extend
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.project_calls import operator_call
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.interpreter.transfer.containers import entry
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import needs_number
from pygraph_lint.analysis.program.annotations import annotated_parameter
from pygraph_lint.analysis.program.names import name_of_all
from pygraph_lint.analysis.syntax.nodes import last_part, source_of, span_of

POSITION = {"position": "yes", "decides": "yes"}  # no graph can hold one that is not known


def eval_subscript(state: State, node: ast.Subscript) -> Value:
    """``base[index]``."""
    base = state.ev(node.value)
    if by_mask(state, base, node):
        return index_tensor(state, masked(base), node)
    if base.is_tensor and not (base.kinds & (v.SEQUENCE | v.MAPPING)):
        return index_tensor(state, base, node)
    index = state.ev(node.slice)
    if base.kinds & v.TENSOR and index.is_tensor:
        return index_tensor(
            state, base._replace(kinds=base.kinds & ~(v.SEQUENCE | v.MAPPING)), node
        )
    return select(state, base, index, node)


def by_mask(state: State, base: Value, node: ast.Subscript) -> bool:
    """Whether what nothing else explains is indexed with boolean tensors, or with several places,
    and slices: as only tensors are, and tables by their own columns.
    """
    index = node.slice
    if not (base.needs or base.kinds == v.UNKNOWN) or isinstance(index, (ast.Constant, ast.Slice)):
        return False
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    values = [(part, state.ev_quiet(part)) for part in parts if not isinstance(part, ast.Slice)]
    return bool(values) and all(
        value.ndim != 0
        and (
            value.is_mask
            or (value.must_be_tensor and (value.ndim > 0 or _is_called_mask(part, value)))
        )
        for part, value in values
    )


def masked(base: Value) -> Value:
    """The value, which is a tensor because one indexes it."""
    why = "only a tensor can be indexed with a tensor"
    return v.tensor(why, device=v.ON_DEVICE, device_of=base.device_of)


def select(state: State, base: Value, index: Value, node: ast.Subscript) -> Value:
    """An element of a container that is no tensor."""
    if isinstance(node.slice, ast.Slice):
        if base.items is not None:
            return Value(v.SEQUENCE, item=v.element(base)) if base.items else base
        return base
    if base.kinds & (v.SEQUENCE | v.MAPPING):
        if base.kinds == v.SEQUENCE:
            needs_number(state, node.slice, index, "entry")
        if base.kinds == v.MAPPING:
            state.note_needed(node.slice)  # a key is compared
        sure = bool(index.needs) or not index.kinds & v.UNKNOWN
        if index.is_tensor and base.kinds == v.SEQUENCE and sure:
            # An index that is worked out has to be known; what a graph gets is one of its inputs.
            given = isinstance(node.slice, ast.Name) and index.flags & v.SYMBOL
            given = given and all(need.kind == "param" for need in index.needs)
            notes = {} if given else {"decides": "yes"}
            state.event("sync.number", span_of(node), "a list indexed by a tensor", index, **notes)
        found = entry(base, index)
        return found._replace(const=None) if base.kinds & v.UNKNOWN else found
    if base.kinds & v.CALLABLE and base.cls:  # a table of functions
        return Value(v.CALLABLE | v.UNKNOWN, cls=base.cls)
    if base.kinds & v.NUMPY:
        return v.element(base._replace(kinds=v.NUMPY))
    if base.kinds == v.TEXT:
        return v.TEXT_VALUE
    made = operator_call(state, node, "__getitem__", node.value, base, node.slice)
    return v.UNKNOWN_VALUE if made is None else made


def index_tensor(state: State, base: Value, node: ast.Subscript) -> Value:
    """``t[...]`` read."""
    mask, lists, gathered, number = index_parts(state, node.slice)
    if isinstance(node.slice, (ast.Constant, ast.UnaryOp)):
        const = (
            node.slice.value if isinstance(node.slice, ast.Constant) else number and number.const
        )
        if base.flags & v.SYMBOL and isinstance(const, (int, str)) and type(const) is not bool:
            return extend(base, str(const))
        if isinstance(const, str):  # no tensor, then
            return v.UNKNOWN_VALUE
    flags = base.flags & (v.RANDOM | v.FINITE | v.DYNAMIC)
    if mask is not None:
        needs = base.needs if mask.needs == base.needs else (*base.needs, *mask.needs)
        about = base._replace(needs=needs)
        state.event("shape.mask-read", span_of(node), source_of(node, 40), about)
        flags |= v.DYNAMIC
    elif gathered is not None and is_flag(gathered):
        about = base._replace(needs=(*base.needs, *gathered.needs))
        text = source_of(node, 40)
        state.event("shape.mask-read", span_of(node), text, about, form="flag", decides="yes")
        flags |= v.DYNAMIC
    elif gathered is not None and (given := given_mask(gathered)) is not None:
        about = base._replace(needs=(*base.needs, given))
        state.event("shape.mask-read", span_of(node), source_of(node, 40), about)
    if lists is not None and base.device != v.ON_HOST:
        state.event("host.index-list", span_of(node), source_of(node, 40), base._replace(why=""))
    elif gathered is not None and _is_copied(gathered, base):
        if not gathered.flags & v.PLAIN and not made_here(state, node.slice):
            state.event("host.moved", span_of(node), source_of(node, 40), base)
    elif gathered is not None and (names_place(gathered) or _is_element(state, gathered)):
        text = source_of(node, 40)
        state.event("shape.from-value", span_of(node), text, gathered, **POSITION)
    elif gathered is None and number is not None and number.is_doubtful_number:
        text = source_of(node, 40)
        state.event("shape.from-value", span_of(node), text, number, **POSITION)
    note_host_index(state, node, base, gathered or mask)
    rank = _rank_of_rest(state, node.slice, base.ndim)
    return v.tensor(base.why, base.dtype, base.device, rank, flags, base.needs, base.device_of)


def given_mask(index: Value) -> Need | None:
    """That a call passes a mask, where an index is a parameter of which nothing is known, or no
    more than that it is a tensor.
    """
    symbol = len(index.needs) == 1 and index.flags & v.SYMBOL
    need = index.needs[0] if symbol else annotated_parameter(index)
    open_one = need is not None and need.kind == "param" and "|" not in need.name
    known = index.dtype or index.ndim >= 0
    return need._replace(kind="mask") if need is not None and open_one and not known else None


def _rank_of_rest(state: State, index: ast.expr, rank: int) -> int:
    """The rank of what numbers, slices and None leave of a tensor; -1 where it is not known."""
    if rank <= 0:
        return -1
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        value = getattr(part, "value", v) if isinstance(part, ast.Constant) else v
        if value is None:
            rank += 1
        elif isinstance(part, ast.Slice) or value is Ellipsis:
            continue
        elif state.ev_quiet(part).kinds == v.NUMBER:
            rank -= 1
        else:
            return -1
    return max(rank, -1)


def index_parts(
    state: State, index: ast.expr
) -> tuple[Value | None, ast.expr | None, Value | None, Value | None]:
    """A boolean mask, a literal list, an index tensor, a plain number: what the index is made
    of.
    """
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    mask = gathered = number = None
    lists: ast.expr | None = None
    for part in parts:
        value = state.ev(part)
        if value.is_tensor and value.ndim < 0 and _is_of_two_places(state, part):
            value = value._replace(ndim=0)
        if value.is_tensor:
            if value.ndim != 0 and (value.dtype == "bool" or _is_called_mask(part, value)):
                mask = value
            elif gathered is None or gathered.needs or value.device == v.ON_HOST:
                gathered = value
        elif value.kinds & v.SEQUENCE:
            if _is_list_index(part, value, nested=isinstance(index, ast.Tuple)):
                lists = part
            elif v.element(value).is_tensor:
                mask = v.element(value) if v.element(value).is_mask else mask
                gathered = gathered or v.element(value)
        elif value.kinds == v.NUMPY and value.ndim > 0:
            lists = part
        elif value.kinds & v.NUMBER:
            number = value
    return mask, lists, gathered, number


def _is_of_two_places(state: State, index: ast.expr) -> bool:
    """Whether an index is ``labels[i, j]``: tensors of indices seldom have more than two axes."""
    parts = getattr(getattr(index, "slice", None), "elts", ())
    return len(parts) > 1 and all(state.ev_quiet(part).kinds == v.NUMBER for part in parts)


def _is_called_mask(index: ast.expr, value: Value) -> bool:
    """Whether an index of unknown dtype is called a mask, or is a part of one: it is one of
    booleans then.
    """
    while isinstance(index, ast.Subscript):
        index = index.value
    name = last_part(index).lower()
    return not value.dtype and "mask" in name.split("_")


def _is_copied(index: Value, base: Value) -> bool:
    """Whether an index is copied to the tensor's device; of one number the host reads the value."""
    return index.device == v.ON_HOST and base.device == v.ON_DEVICE and index.ndim != 0


def note_host_index(state: State, node: ast.Subscript, base: Value, index: Value | None) -> None:
    """Record an index tensor that comes from elsewhere, if it is one of the host there."""
    if index is None or index.device_of is None or index.ndim == 0 or base.device == v.ON_HOST:
        return
    if index.device == v.ON_HOST or index.device_of == base.device_of:
        return
    needs: tuple[Need, ...] = (on_host(index.device_of),)
    if index.flags & v.SYMBOL:  # perhaps a tuple of tensors, one for each dimension
        first = index.device_of._replace(name=f"{index.device_of.name}|0")
        needs = any_of(needs, (on_host(first),))
    apart = (not_on_host(base.device_of),) if base.device_of is not None else ()
    about = v.tensor("made on the host", needs=(*needs, *apart))
    state.event("host.moved", span_of(node), source_of(node, 40), about)


def names_place(index: Value) -> bool:
    """Whether a tensor is an index that the host reads: a single number of the device."""
    return index.ndim == 0 and index.dtype != "bool" and index.device != v.ON_HOST


def is_flag(index: Value) -> bool:
    """Whether a tensor is a mask without axes, on the device: it selects all or nothing."""
    return index.ndim == 0 and index.dtype == "bool" and index.device != v.ON_HOST


def _is_element(state: State, index: Value) -> bool:
    """Whether an index of unknown rank rests on a parameter that is named as one element of a
    tensor which its object keeps: ``timestep`` beside ``self.timesteps``.
    """
    need = index.needs[0] if len(index.needs) == 1 and index.ndim < 0 else None
    kept = name_of_all(need.name) if need is not None and need.kind == "param" else None
    if kept is None or not state.owner:
        return False
    held = state.module.class_attribute(state.owner, kept)
    return held is not None and held.is_tensor


def names_one(state: State, index: ast.expr, rank: int) -> bool:
    """Whether an index names a single element of a tensor: as many numbers as the tensor has
    dimensions.
    """
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    numbers = [part for part in parts if getattr(part, "value", None) is not Ellipsis]
    return len(numbers) == rank and all(state.ev_quiet(part).kinds == v.NUMBER for part in numbers)


def _is_list_index(part: ast.expr, value: Value, nested: bool) -> bool:
    """Whether part of an index is a list of numbers, of which torch makes an index tensor."""
    if isinstance(part, (ast.List, ast.ListComp)):
        return not any(isinstance(element, ast.Slice) for element in getattr(part, "elts", ()))
    held = v.element(value)
    if value.kinds != v.SEQUENCE or not held.kinds & v.NUMBER or held.must_be_tensor:
        return False
    return bool(value.flags & v.LIST) or (nested and held.kinds == v.NUMBER)


def made_here(state: State, index: ast.expr) -> bool:
    """Whether an index is a tensor whose making was reported already."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Name) and part.id in state.origins for part in parts)


def eval_slice(state: State, node: ast.Slice) -> Value:
    """``start:stop:step``."""
    for bound in (node.lower, node.upper, node.step):
        if bound is not None:
            value = state.ev(bound)
            needs_number(state, bound, value)
            if value.is_tensor:
                text = source_of(bound, 40)
                state.event("shape.from-value", span_of(bound), text, value, form="slice")
    return v.OTHER_VALUE
