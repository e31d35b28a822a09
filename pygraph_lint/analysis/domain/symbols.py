"""Values that other files decide about, and constants."""

from __future__ import annotations

from functools import lru_cache

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Need
from pygraph_lint.analysis.domain.values import Value


@lru_cache(maxsize=2048, typed=True)
def constant(value: object) -> Value:
    """The value of a literal."""
    if value is None:
        return v.NONE_VALUE
    if isinstance(value, str):
        return Value(v.TEXT, const=value if len(value) < 40 else None, flags=v.LITERAL)
    if isinstance(value, (bool, int, float, complex)):
        return Value(v.NUMBER, const=value, flags=v.LITERAL)
    return v.OTHER_VALUE


def symbol(need: Need, why: str, extra: int = 0) -> Value:
    """A value that is a tensor if ``need`` is confirmed."""
    device = v.ANYWHERE if need.kind == "return" else v.ON_DEVICE
    return v.resting_on(need, v.TENSOR | v.UNKNOWN | extra, device, why)


def is_symbol(value: Value) -> bool:
    """Whether the value is exactly what its need names."""
    return bool(value.flags & v.SYMBOL)


def is_result(value: Value) -> bool:
    """Whether a value is what calling a parameter gives, as functions to integrate are."""
    need = value.needs[0] if value.needs and value.flags & v.SYMBOL else None
    return need is not None and need.kind == "param" and need.name.partition("|")[2] == "()"


def is_given(value: Value) -> bool:
    """Whether a value is a parameter that nothing else explains, or an element of one, by place or
    by key.
    """
    if not (value.flags & v.SYMBOL and value.needs) or value.needs[0].kind != "param":
        return False
    return not any(step.startswith((".", "(")) for step in value.needs[0].name.split("|")[1:])


def extend(value: Value, step: str) -> Value:
    """The element, attribute or call result ``step`` of a symbol."""
    if not value.needs or value.needs[0].name.count("|") > 3:
        return v.UNKNOWN_VALUE
    of = value.needs[0]
    need = Need(of.kind, of.owner, f"{of.name}|{step}", of.choices, of.site, of.tests)
    return symbol(need, value.why)


def as_made(value: Value, other: Value) -> Value:
    """A parameter, where another path makes a tensor in its place: one of that kind."""
    given = value.flags & v.SYMBOL and value.needs and not value.dtype
    if not given or value.needs[0].kind != "param" or not other.must_be_tensor:
        return value
    return value._replace(kinds=value.kinds & ~v.UNKNOWN, dtype=other.dtype, ndim=other.ndim)


def as_tensor(value: Value, outcome: bool) -> Value | None:
    """A value after a test whether it is a tensor."""
    if outcome:
        if value.is_tensor:
            return value._replace(kinds=v.TENSOR, needs=(), flags=value.flags & ~v.SYMBOL)
        return v.tensor("the code tests that it is a tensor", device=v.ANYWHERE)
    kinds = value.kinds & ~v.TENSOR
    if kinds == 0:
        return None
    return Value(kinds, items=value.items, item=value.item, cls=value.cls)


def as_argument(value: Value) -> Value | None:
    """What is kept of an argument: what may be a tensor or a function, the class of an object, and
    the kinds of what is surely something else; None where nothing is known.
    """
    if value.kinds & (v.TENSOR | v.CALLABLE):
        return value if not value.items else value._replace(items=None, keys=None)
    if value.kinds & (v.SEQUENCE | v.MAPPING) and _holds_tensors(value):
        return v.shallow(value, 2)
    if value.is_doubtful_number:  # it may be passed on
        return value._replace(kinds=v.TENSOR | v.NUMBER, ndim=0)
    if value.kinds & v.UNKNOWN:
        return None
    cls = value.cls if value.kinds & (v.INSTANCE | v.OTHER) else ""
    return v.plain(value.kinds, cls, value.const)


def _holds_tensors(value: Value) -> bool:
    return any(part.kinds & v.TENSOR or _holds_tensors(part) for part in v.parts(value))
