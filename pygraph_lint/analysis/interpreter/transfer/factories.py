"""Tensors made in a region: factories, and data from the host."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import has_starred
from pygraph_lint.analysis.interpreter.conditions import guard_other_than_tensor
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.interpreter.transfer.arithmetic import merge_device
from pygraph_lint.analysis.interpreter.transfer.numpy_functions import need_numbers
from pygraph_lint.analysis.syntax.nodes import dotted, is_constant, keyword, last_part, span_of

_SIZE_NAMES = ("end", "start", "step", "steps", "size", "n")
_ENDS = ("start", "end")
_OF_ONE_SIZE = frozenset(("full", *ops.FREQUENCIES))  # what follows is no size
_OF_SIZES = ("zeros", "ones", "empty", "rand", "randn")
_OF_CONSTANT = {bool: "bool", int: "int", float: "float"}
_TYPED = {"BoolTensor": "bool", "LongTensor": "int", "IntTensor": "int"}


def placement(state: State, site: CallSite) -> tuple[int, bool]:
    """Where a factory puts its tensor, and whether the call says so."""
    for item in site.node.keywords:
        if item.arg is None:
            return v.ANYWHERE, True
        if item.arg == "device":
            if isinstance(item.value, ast.Constant):
                if item.value.value is None:
                    return v.ON_HOST, False
                if str(item.value.value) in ("cpu", "meta"):
                    return v.ON_HOST, True
                return v.ON_DEVICE, True
            named = last_part(item.value) == "CPU"
            host = named or site.named["device"].flags & v.DEVICE_CPU
            return (v.ON_HOST if host else v.ON_DEVICE), True
        if item.arg == "out":
            return v.ANYWHERE, True
    if state.device_context:
        return v.ON_DEVICE, True
    return v.ON_HOST, False


def make_factory(state: State, tail: str, site: CallSite) -> Value:
    """torch.arange, zeros, ...: on the host unless told otherwise."""
    positional = site.positional
    if tail == "normal" and any(value.is_tensor for value in positional):
        where = merge_device(site.everything)
        return v.tensor("torch.normal returns a tensor", "float", where, flags=v.RANDOM)
    device, said = placement(state, site)
    _note_factory_sizes(state, tail, site)
    flags = v.FRESH | (v.RANDOM if tail in ops.RANDOM_FACTORIES else 0)
    if any((value.flags & v.READ) for value in positional):
        flags |= v.DYNAMIC
    if not said and _is_empty(tail, site):
        device = v.ANYWHERE
    elif not said:
        state.event("host.factory", span_of(site.node), f"torch.{tail}")
    elif device == v.ON_DEVICE:
        state.function.takes_tensors = True
    filled = site.get(1, "fill_value") if tail == "full" else v.NUMBER_VALUE
    if filled.is_tensor and filled.device != v.ON_HOST and not filled.kinds & v.UNKNOWN:
        spelled = "fill_value=" if "fill_value" in site.named else "torch.full()"
        state.event("sync.number", span_of(site.node), spelled, filled, form="fill")
    note_wanted_grad(state, site)
    kind = dtype_of(site.named) or _made_dtype(tail, site)
    return v.tensor(f"made by torch.{tail}", kind, device, _rank_of_sizes(tail, site), flags)


def _note_factory_sizes(state: State, tail: str, site: CallSite) -> None:
    """Record what a factory reads from tensors: sizes, or the ends of a range, which are traced."""
    sizes = site.positional[:1] if tail in _OF_ONE_SIZE else site.positional
    ends: list[Value] = []
    names: tuple[str, ...] = _SIZE_NAMES
    if tail in ("linspace", "logspace"):
        ends = [*sizes[:2], *(site.named[name] for name in _ENDS if name in site.named)]
        sizes, names = sizes[2:3], ("steps",)
    sizes = [*sizes, *(site.named[name] for name in names if name in site.named)]
    known: dict[str, str] = {}
    if tail in ops.FREQUENCIES:  # what they get is compared
        known["decides"] = "yes"
        for given in (*site.node.args, *(item.value for item in site.node.keywords)):
            state.note_needed(given)
    note_sizes(state, f"torch.{tail}", sizes, site, **known)
    if not any(value.is_tensor for value in sizes):
        note_sizes(state, f"torch.{tail}", ends, site, form="bound")


def _is_empty(tail: str, site: CallSite) -> bool:
    """Whether a factory makes a tensor of no elements: nothing is ever copied of it."""
    sizes = [part for value in site.positional for part in (value, *(value.items or ()))]
    return tail in _OF_SIZES and any(value.const == 0 for value in sizes)


def _made_dtype(tail: str, site: CallSite) -> str:
    """The dtype of what a factory makes where no argument says it."""
    if tail in ops.INT_FACTORIES:
        return "int"
    if tail == "full":
        return _OF_CONSTANT.get(type(site.get(1, "fill_value").const), "")
    if tail != "arange" or any(isinstance(value.const, float) for value in site.positional):
        return "float"
    return "int" if all(value.kinds & v.NUMBER for value in site.positional) else ""


def note_generator(state: State, spelled: str, site: CallSite) -> None:
    """Record a draw from a generator: one of the function's own, one that an object holds, or one
    that a caller passes. A graph that is captured by hand can know it (see `capture.generator`).
    """
    given = site.named.get("generator")
    if given is None:
        return
    about: Value | None = None
    if given != v.GENERATOR_VALUE:
        need = _holder(state, given, keyword(site.node, "generator"))
        if need is None:
            return
        about = Value(v.OTHER, needs=(need,), why=f"`{need.name}` is a generator")
    spelled = f"{spelled}(generator=...)"
    state.event("effect.generator", span_of(site.node), spelled, about, waits="no")


def _holder(state: State, given: Value, node: ast.expr | None) -> Need | None:
    """The attribute or the parameter that has to be a generator; None for anything else."""
    if isinstance(node, ast.Name) and node.id in state.unchanged:
        return Need("generator", state.function.name, node.id)
    need = given.needs[0] if given.flags & v.SYMBOL and given.needs else None
    held = need is not None and need.kind in ("attr", "param") and "|" not in need.name
    return need._replace(kind="generator") if need is not None and held else None


def note_wanted_grad(state: State, site: CallSite) -> None:
    """Record a factory with requires_grad=True: a leaf in the middle of the region."""
    for item in site.node.keywords:
        if _wants_grad(state, item):
            place = span_of(site.node)
            state.event("effect.requires-grad", place, "requires_grad=True", form="made")


def _wants_grad(state: State, keyword: ast.keyword) -> bool:
    return keyword.arg == "requires_grad" and _may_be_on(state, keyword.value)


def _may_be_on(state: State, node: ast.expr) -> bool:
    """Whether a switch is True, or takes its value from something that is True in training."""
    if isinstance(node, ast.Name):
        return node.id in state.function.switched_on
    if isinstance(node, ast.Attribute):
        return node.attr == "training"
    return is_constant(node, True)


def note_sizes(
    state: State, spelled: str, sizes: list[Value], site: CallSite, **notes: str
) -> None:
    """Record a size given as a tensor, or as what numpy made: it has to be read on the host."""
    for part in (part for value in sizes for part in (value, *(value.items or ()))):
        given = part.is_doubtful_number and part.const is None
        if given or (part.is_tensor and (part.needs or not part.kinds & v.UNKNOWN)):
            state.event("shape.from-value", span_of(site.node), spelled, part, **notes)
            break
    need_numbers(state, site)


def _made_by_size(state: State, tail: str, site: CallSite, data: Value, kind: str) -> Value | None:
    """``torch.FloatTensor()`` and ``torch.FloatTensor(3, 4)``; None where it gets data."""
    why = f"made by torch.{tail}"
    if not site.everything or data.const == 0:  # no elements: nothing to copy
        return v.tensor(why, kind, flags=v.FRESH)
    if not data.kinds & v.NUMBER and len(site.positional) < 2:
        return None
    state.event("host.factory", span_of(site.node), f"torch.{tail}")
    return v.tensor(why, kind, v.ON_HOST, flags=v.FRESH)


def make_from_data(state: State, tail: str, site: CallSite) -> Value:
    """torch.tensor(data) and its kin."""
    node = site.node
    data = site.get(0, "data")
    device, said = placement(state, site)
    kind = dtype_of(site.named) or _OF_CONSTANT.get(type(data.const), "")
    kind = kind or ("bool" if _holds_flags(data, node) else "")
    why = f"made by torch.{tail}"
    note_wanted_grad(state, site)
    if tail in ops.TYPED_CONSTRUCTORS:
        kind = _TYPED.get(tail, "float")
        made = _made_by_size(state, tail, site, data, kind)
        if made is not None:
            return made
    if _is_tensor_already(tail, data):
        plain = data._replace(flags=data.flags & ~v.SYMBOL)
        if tail in ("as_tensor", "asarray", "Tensor"):
            return plain._replace(device=device if said else data.device)
        return plain._replace(why=why)
    inner = v.element(data) if data.kinds & v.SEQUENCE else data
    if tail == "scalar_tensor" and said:  # filled where it is wanted
        return v.tensor(why, kind or "float", device, 0, v.FRESH)
    if data.items == () or inner.items == ():  # a placeholder: nothing to copy
        return v.tensor(why, kind or "float", device, flags=v.FRESH)
    _note_gathered(state, tail, node, data)
    if data.kinds & v.UNKNOWN and tail in ("as_tensor", "asarray", "from_numpy"):
        return v.tensor(why, kind, device if said else v.ANYWHERE)
    number = data.kinds == v.NUMBER
    if number and not said:
        state.event("host.scalar-tensor", span_of(node), f"torch.{tail}")
    else:
        _note_data(state, tail, node, data, _notes(state, tail, site, said and device != v.ON_HOST))
    rank = 0 if number else 1 if data.kinds == v.SEQUENCE and inner.kinds == v.NUMBER else -1
    return v.tensor(why, kind, device, rank, v.FRESH)


_FLAGS = ("bool", "isinstance", "any", "all", "hasattr", "callable")


def _holds_flags(data: Value, call: ast.Call) -> bool:
    """Whether a tensor is made of a list of True and False: ``[x > 0 for x in numbers]``."""
    if data.items:
        return all(isinstance(each.const, bool) for each in data.items)
    each = getattr(call.args[0], "elt", None) if call.args else None
    called = isinstance(each, ast.Call) and dotted(each.func) in _FLAGS
    return called or isinstance(each, ast.Compare)


def _notes(state: State, tail: str, site: CallSite, said: bool) -> dict[str, str]:
    """What is said of a tensor made of data; ``said``: the call names a device."""
    data, given = site.get(0, "data"), site.node.args
    holds = {
        "placed": said,
        "number": data.kinds == v.NUMBER,
        "constant": bool(given) and _is_constant(given[0]),
        "unknown": tail == "tensor" and not said and bool(data.kinds & v.UNKNOWN),
    }
    notes = {name: "yes" for name, true in holds.items() if true}
    if any(_wants_grad(state, keyword) for keyword in site.node.keywords):
        notes["form"] = "grad"
    return notes


def _note_data(state: State, tail: str, node: ast.Call, data: Value, notes: dict[str, str]) -> None:
    """Record a tensor built from data of the host; a tensor is passed on as it is."""
    guards = state.guards
    if node.args and tail in ("as_tensor", "asarray"):
        guard_other_than_tensor(state, node.args[0])
    state.event("host.data-tensor", span_of(node), f"torch.{tail}", _no_tensor(data), **notes)
    state.guards = guards


def _is_tensor_already(tail: str, data: Value) -> bool:
    """Whether data are a tensor; what is annotated as a number or a tensor is converted because
    numbers are passed.
    """
    converted = v.NUMBER if tail in ("as_tensor", "asarray") else 0
    others = v.SEQUENCE | v.UNKNOWN | converted
    return data.is_tensor and not data.needs and not data.kinds & others


def _note_gathered(state: State, tail: str, node: ast.Call, data: Value) -> None:
    """Record that the host reads the tensors that are among the data, once."""
    part = next((part for part in v.parts(data) if part.is_tensor), None)
    if part is not None:
        form = {"form": "gathered"} if tail == "tensor" else {}
        state.event("sync.number", span_of(node), f"torch.{tail} of tensors", part, **form)


def _is_constant(data: ast.expr) -> bool:
    """Whether data are written out: a list of numbers, or of such lists."""
    if isinstance(data, (ast.List, ast.Tuple)):
        return all(map(_is_constant, data.elts))
    return isinstance(data, ast.Constant) or (
        isinstance(data, ast.UnaryOp) and isinstance(data.operand, ast.Constant)
    )


def _no_tensor(data: Value) -> Value | None:
    """The data of a tensor, which is no tensor itself: what that rests on."""
    if not (data.is_tensor and data.needs) or data.kinds & v.NUMBER:
        return None
    return Value(
        v.OTHER, needs=(Need("not", "", "", (data.needs,)),), why="the data is on the host"
    )


def new_tensor(state: State, base: Value, method: str, site: CallSite) -> Value:
    """``x.new_zeros(...)`` and ``x.new_tensor(data)``: on x's device. ``x.new(t)`` is like t."""
    kind = dtype_of(site.named) or base.dtype
    if method == "new_tensor":
        state.event("host.data-tensor", span_of(site.node), ".new_tensor()", placed="yes")
    elif not (method == "new" and len(site.positional) == 1 and site.first.is_tensor):
        sizes = site.positional[:1] if method == "new_full" else site.positional
        note_sizes(state, f".{method}()", sizes, site)
    rank = _rank_of_sizes(method.removeprefix("new_"), site)
    return v.tensor(
        f"made by .{method}()", kind, base.device, rank, needs=base.needs, device_of=base.device_of
    )


def dtype_of(named: dict[str, Value]) -> str:
    """The dtype that ``dtype=...`` says; empty where there is none."""
    value = named.get("dtype")
    return value.dtype if value is not None else ""


def _rank_of_sizes(tail: str, site: CallSite) -> int:
    if tail in ("arange", "linspace", "logspace", "randperm", *ops.FREQUENCIES):
        return 1
    if tail in ("rand", "randn", "zeros", "ones", "empty", "full"):
        if not site.positional:
            return -1
        first = site.first
        if first.kinds & v.SEQUENCE:
            return len(first.items) if first.items is not None else -1
        if tail != "full" and not has_starred(site.node):
            return len(site.positional)
    if tail == "randint":
        sizes = [value.items for value in site.everything if value.items is not None]
        return len(sizes[0]) if len(sizes) == 1 else -1
    return -1
