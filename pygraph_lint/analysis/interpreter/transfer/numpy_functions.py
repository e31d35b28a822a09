"""numpy inside a region: torch.compile traces it as tensors, so its results have no value there."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import NEVER
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.program.parameters import holds_of_arrays
from pygraph_lint.analysis.syntax.nodes import compared, source_of, span_of

_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
# From several numbers to one.
_REDUCTIONS = frozenset(
    f"numpy.{name}"
    for name in """
        sum prod max min amax amin mean std var median argmax argmin any all ptp count_nonzero dot
        trace linalg.norm linalg.det
    """.split()
)
# From numbers to a number. (What is made of single numbers is worked out while tracing, but no
# condition on it.)
_OF_NUMBERS = frozenset(
    f"numpy.{name}"
    for name in """
        sqrt exp log log2 log10 log1p ceil floor round rint abs absolute sign power maximum minimum
        sin cos tan arctan arctan2 hypot deg2rad rad2deg mod remainder floor_divide clip isnan
        isinf isfinite isclose square cbrt float64 float32 int64 int32 float16 uint8
    """.split()
)
# Of two numbers: not worked out.
_DIVISORS = frozenset(("numpy.lcm", "numpy.gcd"))
# What these give is no array.
_PLAIN = frozenset(
    f"numpy.{name}"
    for name in """
        dtype finfo iinfo issubdtype result_type promote_types can_cast broadcast_shapes shape
        ndim size isscalar iscomplexobj isrealobj allclose array_equal errstate seterr typename
    """.split()
)
_GENERATORS = ("numpy.random.default_rng", "numpy.random.RandomState", "numpy.random.Generator")
_MADE_OF_LISTS = ("numpy.array", "numpy.asarray")
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
        needs_number(state, node.args[0], site.first)
    for value in site.everything:
        for part in (value, *(value.items or ())):
            if part.is_tensor and not (part.kinds & v.UNKNOWN):
                part = _no_array(state, part)
                state.event("sync.numpy", span_of(node), name, part)
                made = v.NUMPY_VALUE._replace(flags=v.LITERAL if part.needs else 0)
                return _several(name, node, made)
    if name in _PLAIN:
        return v.UNKNOWN_VALUE
    if name in _GENERATORS:
        return Value(v.INSTANCE, cls="numpy.random.Generator")
    if draws and name.removeprefix("numpy.") not in _RANKS and not _draws_array(name, site):
        return v.NUMBER_VALUE  # the graph has ended: it is a number now
    if any(_is_object(state, keyword) for keyword in node.keywords):
        state.event("effect.untraced-call", span_of(node), f"{name}(dtype=object)", form="object")
    _note_array_of_numbers(state, name, site)
    made = v.NUMPY_VALUE._replace(ndim=_rank(name, site), flags=_settled(name, site))
    return _several(name, node, made)


def _no_array(state: State, value: Value) -> Value:
    """A tensor that NumPy gets; what a helper uses like any array is taken for one."""
    if value.needs or state.function.name.endswith(".forward") or not holds_of_arrays(value.why):
        return value
    return value._replace(needs=(NEVER,))


def _several(name: str, node: ast.Call, made: Value) -> Value:
    """What a function gives: ``numpy.unique`` also indices and counts that are asked for."""
    asked = [item for item in node.keywords if (item.arg or "").startswith("return_")]
    if name != "numpy.unique" or not asked:
        return made
    array = made._replace(ndim=1)
    return Value(v.SEQUENCE, items=(array,) * (1 + len(asked)))


def _is_object(state: State, keyword: ast.keyword) -> bool:
    return keyword.arg == "dtype" and state.qualified(keyword.value) == "builtins.object"


def _rank(name: str, site: CallSite) -> int:
    """The least rank of what a function gives; 0 for a single number, -1 where it is not known."""
    if name in _REDUCTIONS and len(site.positional) == 1 and not site.named:
        return 0
    single = bool(site.positional) and all(map(_is_single, site.positional))
    if name in _MADE_OF_LISTS and site.first.items and all(map(_is_single, site.first.items)):
        return 1
    if name in (_OF_NUMBERS | _DIVISORS) and single:
        return 0
    return _RANKS.get(name.removeprefix("numpy."), -1)


def _settled(name: str, site: CallSite) -> int:
    """LITERAL where torch.compile works out the number that a function gives."""
    if name in _OF_NUMBERS:
        given = site.positional
    elif name in _REDUCTIONS or name in _MADE_OF_LISTS:
        items = site.first.items or ()
        given = list(items) if len(items) == len(site.positional) == 1 else []
    else:
        return 0
    return v.LITERAL if given and all(map(is_settled, given)) else 0


def _is_single(value: Value) -> bool:
    return value.kinds == v.NUMBER or (value.kinds == v.NUMPY and value.ndim == 0)


def is_settled(value: Value) -> bool:
    """Whether a value is no array, nor a number of which tracing makes a tensor."""
    if value.kinds == v.NUMPY:
        return bool(value.flags & v.LITERAL)
    return bool(value.needs) or not value.kinds & (v.TENSOR | v.SEQUENCE)


def combined(left: Value, right: Value) -> Value:
    """What arithmetic or a comparison of numbers and what numpy made gives."""
    settled = is_settled(left) and is_settled(right)
    single = _is_single(left) and _is_single(right)
    return Value(v.NUMPY, ndim=0 if single else -1, flags=v.LITERAL if settled else 0)


def _note_array_of_numbers(state: State, name: str, site: CallSite) -> None:
    """Record an array made of a list with something that numpy made: a tensor, while tracing. A
    list of nothing else is stacked.
    """
    if name not in _MADE_OF_LISTS or not site.node.args:
        return
    rows = site.first.items or ()
    parts = (part for row in rows for part in (row, *(row.items or ())))
    stacked = all(row.kinds == v.NUMPY for row in rows)
    if not stacked and any(part.kinds == v.NUMPY and not part.needs for part in parts):
        state.event("host.numpy-number", span_of(site.node), name, form="array")


def decides(state: State, node: ast.expr, value: Value, kind: str) -> None:
    """Record a condition on what numpy made: a tensor, while tracing. An assert is traced."""
    if value.kinds == v.NUMPY and not value.needs and kind != "branch.assert":
        state.event("host.numpy-number", span_of(node), source_of(node), form="branch")


def compares(state: State, node: ast.expr, kind: str) -> None:
    """Record a condition that compares what numpy made with a parameter, or a parameter with a
    number, where a caller passes what numpy made.
    """
    parts = compared(node)
    if parts is None or kind == "branch.assert" or not isinstance(parts[1], _ORDERS):
        return
    left, right = (state.ev_quiet(parts[0]), state.ev_quiet(parts[2]))
    for one, other in ((left, right), (right, left)):
        need = other.needs[0] if other.needs else None
        if need is None or need.kind != "param":
            continue
        if one.kinds == v.NUMPY and not one.needs and one.ndim <= 0:
            state.event("host.numpy-number", span_of(node), source_of(node), form="branch")
        elif one.kinds == v.NUMBER and other.flags & v.SYMBOL and "|" not in need.name:
            why = f"a caller passes what numpy made for `{need.name}`"
            about = Value(v.OTHER, needs=(need._replace(kind="array"),), why=why)
            state.event("host.numpy-number", span_of(node), source_of(node), about, form="branch")


def _draws_array(name: str, site: CallSite) -> bool:
    """Whether a draw gives an array, which torch.compile traces; a number it would have to read."""
    place = _SIZE_PLACES.get(name.removeprefix("numpy.random."))
    if place is None:
        return False
    return len(site.positional) > place or site.named.get("size", v.NONE_VALUE).kinds != v.NONE


def need_numbers(state: State, site: CallSite, form: str = "read") -> None:
    """Record that the values of a call's positional arguments are needed while tracing."""
    for argument, value in zip(site.node.args, site.positional):
        starred = isinstance(argument, ast.Starred)
        needs_number(state, argument, state.ev_quiet(argument) if starred else value, form)


def needs_number(state: State, node: ast.expr, value: Value, form: str = "read") -> None:
    """Record that the value of ``node``, or of each of a tuple's elements, is needed while
    tracing. With ``form`` "loop" or "entry" one that is worked out does not do either.
    """
    parts = node.elts if isinstance(node, (ast.Tuple, ast.List)) else None
    for part in parts if parts is not None else [node]:
        if isinstance(part, ast.Constant):
            continue
        value = value if parts is None else state.ev_quiet(part)
        if value.kinds != v.NUMPY or value.needs or value.ndim > 0:
            continue
        place = span_of(part)
        made = state.events.get(("sync.numpy", place.line, place.column))
        drawn = ("effect.numpy-random", place.line, place.column) in state.events
        settled = value.flags & v.LITERAL and form not in ("loop", "entry")
        if not settled and not drawn and (made is None or made.needs):
            name = state.qualified(part.func) if isinstance(part, ast.Call) else None
            state.event("host.numpy-number", place, name or source_of(part), form=form)


def array_method(state: State, base: Value, method: str, holder: ast.expr, site: CallSite) -> Value:
    """A method of what numpy made."""
    if method not in ("item", "tolist"):
        single = f"numpy.{method}" in _REDUCTIONS and not site.everything
        return v.NUMPY_VALUE._replace(ndim=0 if single else -1)
    if base.kinds == v.NUMPY and not site.everything:
        _read_array(state, base, method, holder, site.node)
    return v.NUMBER_VALUE if method == "item" else Value(v.SEQUENCE, item=v.NUMBER_VALUE)


def _read_array(state: State, base: Value, method: str, holder: ast.expr, node: ast.Call) -> None:
    """``.item()`` and ``.tolist()`` of what numpy made: the values are needed while tracing."""
    place = span_of(holder)
    key = ("effect.numpy-random", place.line, place.column)
    if key in state.events:  # of an array that is drawn the value is needed now
        state.events[key] = state.events[key]._replace(notes=())
    elif method == "tolist" and not base.flags & v.LITERAL and not base.needs:
        state.event("host.numpy-number", span_of(node), source_of(node, 40), form="read")
    else:
        needs_number(state, holder, state.ev_quiet(holder))
