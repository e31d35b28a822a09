"""The abstract values: what an expression may be, as far as the rules care.

A value is a product of parts. ``kinds`` is a set: what the expression *may* be. The other fields
describe one of these kinds and count only where it is there: ``dtype``, ``device``, ``ndim`` and
``needs`` the tensor, ``items``, ``keys`` and ``item`` the container, ``cls`` the object or the
function. ``join`` is the least upper bound: kinds are united, and of what both values describe only
what holds of both is kept. It is commutative, associative and idempotent, and the lattice has
finite height for one function, so loops reach a fixed point: kinds and flags are finite sets,
dtypes, devices, ranks and constants are flat, containers lose their length or keys at most once and
nest at most ``_MAX_DEPTH`` deep, and classes and needs are chosen among the names that the function
mentions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from pygraph_lint.analysis.domain.events import Need, any_of, of_any_call

# What a value may be: one bit each, joined by `|`.
TENSOR = 1
NUMBER = 2
NONE = 4
TEXT = 8
SEQUENCE = 16
MAPPING = 32
INSTANCE = 64  # of a class named in `cls`
CALLABLE = 128  # a function or class named in `cls`
NUMPY = 256
DEVICE = 512
DTYPE = 1024
OTHER = 2048  # known to be none of the above
UNKNOWN = 4096

# Where a tensor lives.
ANYWHERE, ON_DEVICE, ON_HOST = 0, 1, 2

# More about a value.
RANDOM = 1  # a random draw, or a comparison with one
FINITE = 2  # isinf / isnan / isfinite and what is reduced from them
DYNAMIC = 4  # the shape depends on values
READ = 8  # a host number read from a tensor's values
PLAIN = 16  # a tensor attribute that is neither parameter nor buffer
BUFFER = 32  # a registered buffer or parameter
LITERAL = 64  # spelled out in the source
FRESH = 128  # made by a factory in this very expression
LOGGER = 256
DEVICE_CPU = 512  # a device value known to be the CPU
MODULE = 1024  # an nn.Module instance of torch's own
RESULT = 2048  # a tuple of a torch operator: named fields
SYMBOL = 4096  # the value is exactly what its need names, not derived from it
DECIDED = 8192  # a branch in this loop was already taken on it
LIST = 16384  # a list, not a tuple
MADE = 32768  # an object that the function itself makes
SIZE = 65536  # how many elements a tensor has, in all or along an axis
FIXED = 131072  # a tensor of the host that is computed from numbers alone
FLOW = RANDOM | FINITE | DYNAMIC | FIXED  # what results of operations inherit

# True of the value on some path; every other flag must hold on all paths.
_MAY = RANDOM | FINITE | DYNAMIC | READ
_OWNERS = (  # flags that must hold, and the kinds they describe
    (PLAIN | BUFFER | FRESH | DECIDED | FIXED, TENSOR),
    (MODULE | MADE, INSTANCE),
    (LIST, SEQUENCE),
    (SIZE, NUMBER),
    (LITERAL | LOGGER | DEVICE_CPU | RESULT | SYMBOL, ~NONE),
)

_MAX_ITEMS = 16
_MAX_DEPTH = 3
_MAX_CLASSES = 12

Key = str | int


class Value(NamedTuple):
    """What an expression may be.

    ``kinds`` is a set of bits. ``dtype`` is ``bool``, ``int``, ``float``, ``complex`` or empty (not
    known), ``ndim`` -1 where it is not known; ``needs`` has to be confirmed when the project is
    linked for the value to be a tensor at all. ``items`` are the elements of a tuple or list of
    known length, or, with ``keys``, the values of a dictionary whose keys are known, or of a named
    tuple, in its order; otherwise
    ``item`` stands for any element. ``cls`` has qualified names, sorted, separated by commas;
    none where the value may be both an object and a function. ``const`` is the value itself where
    it is a small constant. ``why`` is the evidence, a sentence.
    ``device_of`` names a value from elsewhere on whose device the tensor is: nothing here has
    moved it.
    """

    kinds: int
    dtype: str = ""
    device: int = ANYWHERE
    ndim: int = -1
    flags: int = 0
    needs: tuple[Need, ...] = ()
    items: tuple[Value, ...] | None = None
    item: Value | None = None
    cls: str = ""
    const: object = None
    why: str = ""
    keys: tuple[Key, ...] | None = None
    device_of: Need | None = None

    @property
    def is_tensor(self) -> bool:
        """Whether the value may be a tensor (conditional on ``needs``)."""
        return self.kinds & TENSOR != 0

    @property
    def must_be_tensor(self) -> bool:
        """Whether the value is a tensor on every path."""
        return self.kinds == TENSOR and not self.needs

    @property
    def is_doubtful_number(self) -> bool:
        """Whether the value is a number by annotations, unless a caller passes a tensor."""
        return self.kinds == NUMBER and bool(self.needs)

    @property
    def is_mask(self) -> bool:
        """Whether the value may be a boolean tensor."""
        return bool(self.kinds & TENSOR) and self.dtype == "bool"


_new = tuple.__new__  # makes a named tuple without the call that gives its defaults

UNKNOWN_VALUE = Value(UNKNOWN)
NUMBER_VALUE = Value(NUMBER)
NONE_VALUE = Value(NONE)
TEXT_VALUE = Value(TEXT)
OTHER_VALUE = Value(OTHER)
GENERATOR_VALUE = Value(OTHER, cls="torch.Generator")
DEVICE_VALUE = Value(DEVICE)
DTYPE_VALUE = Value(DTYPE)
NUMPY_VALUE = Value(NUMPY)
READ_VALUE = Value(NUMBER, flags=READ)
SEQUENCE_VALUE = Value(SEQUENCE, item=UNKNOWN_VALUE)
SIZE_VALUE = Value(NUMBER, flags=SIZE)
SHAPE_VALUE = Value(SEQUENCE, item=SIZE_VALUE)
MAPPING_VALUE = Value(MAPPING, item=UNKNOWN_VALUE)


@lru_cache(maxsize=8192, typed=True)
def plain(kinds: int, cls: str = "", const: object = None) -> Value:
    """A value of which only its class and its constant are known, made once."""
    return Value(kinds, cls=cls, const=const)


def tensor(
    why: str = "",
    dtype: str = "",
    device: int = ANYWHERE,
    ndim: int = -1,
    flags: int = 0,
    needs: tuple[Need, ...] = (),
    device_of: Need | None = None,
) -> Value:
    """A tensor."""
    return _new(
        Value,
        (TENSOR, dtype, device, ndim, flags, needs, None, None, "", None, why, None, device_of),
    )


def resting_on(need: Need, kinds: int, device: int, why: str) -> Value:
    """What ``need`` names: of these kinds if it is confirmed."""
    return _new(
        Value, (kinds, "", device, -1, SYMBOL, (need,), None, None, "", None, why, None, need)
    )


def sequence(items: list[Value]) -> Value:
    """A tuple or list of known length."""
    if len(items) > _MAX_ITEMS:
        return Value(SEQUENCE, item=join_all(items))
    return Value(SEQUENCE, items=tuple(shallow(item) for item in items))


def mapping(entries: dict[Key, Value]) -> Value:
    """A dictionary whose keys are known."""
    if len(entries) > _MAX_ITEMS:
        return Value(MAPPING, item=join_all(list(entries.values())))
    keys = tuple(sorted(entries, key=_key_order))
    return Value(MAPPING, items=tuple(shallow(entries[key]) for key in keys), keys=keys)


def _key_order(key: Key) -> tuple[str, Key]:
    return (type(key).__name__, key)


def named_tuple(fields: Sequence[str], items: Sequence[Value]) -> Value:
    """A tuple with names for its elements."""
    held = tuple(shallow(item) for item in items)
    return Value(SEQUENCE, items=held, keys=tuple(fields))


def entries(value: Value) -> dict[Key, Value]:
    """The values of a dictionary by key; empty where the keys are not known."""
    return dict(zip(value.keys, value.items or ())) if value.keys is not None else {}


def classes(value: Value) -> list[str]:
    """The classes or functions that a value may be, or be an instance of."""
    return value.cls.split(",") if value.cls else []


def shallow(value: Value, depth: int = _MAX_DEPTH) -> Value:
    """The value without elements nested deeper than ``depth``, so that values stay small in
    loops.
    """
    if value.items is None and value.item is None:
        return value
    if depth == 0:
        return value._replace(items=None, item=UNKNOWN_VALUE, keys=None)
    items = value.items
    if items is not None:
        items = tuple(shallow(item, depth - 1) for item in items)
    item = value.item
    if item is not None:
        item = shallow(item, depth - 1)
    return value._replace(items=items, item=item)


def kept(value: Value) -> Value:
    """The value as an attribute holds it: objects in it are no longer just made."""
    if value.flags & MADE:
        value = value._replace(flags=value.flags & ~MADE)
    if value.items is not None:
        return value._replace(items=tuple(map(kept, value.items)))
    return value if value.item is None else value._replace(item=kept(value.item))


def parts(value: Value) -> tuple[Value, ...]:
    """The elements that are known of a container."""
    if value.items is not None:
        return value.items
    return (value.item,) if value.item is not None else ()


def element(value: Value) -> Value:
    """What indexing the value with an unknown index gives. Of a dictionary that holds tensors and
    other things it says nothing: which one is meant is not known.
    """
    if value.kinds & TENSOR:
        rank = value.ndim - 1 if value.ndim > 0 else -1
        if value.flags & SYMBOL and value.needs and value.needs[0].name.count("|") <= _MAX_DEPTH:
            need = value.needs[0]._replace(name=f"{value.needs[0].name}|0")
            device_of = need if value.device_of is not None else None
            return value._replace(
                ndim=rank, needs=(need,), items=None, item=None, keys=None, device_of=device_of
            )
        flags = value.flags & ~FRESH
        return tensor(
            value.why, value.dtype, value.device, rank, flags, value.needs, value.device_of
        )
    if value.kinds == NUMPY:
        return NUMPY_VALUE._replace(ndim=max(value.ndim - 1, -1))
    if value.items is not None:
        held = join_all(value.items)
        mixed = held.kinds & TENSOR and held.kinds & (NUMBER | TEXT | OTHER)
        return UNKNOWN_VALUE if mixed and value.keys is not None else held
    if value.item is not None:
        return value.item
    if value.kinds & TEXT and not value.kinds & UNKNOWN:
        return TEXT_VALUE
    return UNKNOWN_VALUE


def iterate(value: Value) -> Value:
    """What iterating over the value gives: of a dictionary, its keys."""
    if value.kinds & MAPPING and not value.kinds & (TENSOR | SEQUENCE):
        texts = value.keys and all(isinstance(key, str) for key in value.keys)
        return TEXT_VALUE if texts else UNKNOWN_VALUE
    return element(value)


def join_all(values: Iterable[Value]) -> Value:
    """The join of several values; unknown for none."""
    joined: Value | None = None
    for value in values:
        joined = value if joined is None else join(joined, value)
    return UNKNOWN_VALUE if joined is None else joined


def join(a: Value, b: Value) -> Value:
    """The least upper bound: what holds on both of two paths."""
    if a is b or a == b:
        return a
    kinds = a.kinds | b.kinds
    dtype, device, ndim, needs, why = _joined_tensor(a, b)
    items, item, keys = None, None, None
    if kinds & (SEQUENCE | MAPPING) or a.item is not None or b.item is not None:
        items, item, keys = _joined_elements(a, b)
    same = a.const is not None and type(a.const) is type(b.const) and a.const == b.const
    flags = _joined_flags(a, b)
    cls = _joined_classes(a, b) if a.cls or b.cls else ""
    const = a.const if same else None
    device_of = _joined_device_of(a, b) if a.device_of is not b.device_of else a.device_of
    return _new(
        Value,
        (kinds, dtype, device, ndim, flags, needs, items, item, cls, const, why, keys, device_of),
    )


def _joined_device_of(a: Value, b: Value) -> Need | None:
    """Where both are, if both are tensors."""
    if not (a.kinds & b.kinds & TENSOR):
        return a.device_of or b.device_of
    return a.device_of if a.device_of == b.device_of else None


def _joined_tensor(a: Value, b: Value) -> tuple[str, int, int, tuple[Need, ...], str]:
    """Dtype, device, rank, needs and evidence. Of two values that are tensors under conditions,
    either's conditions are enough; one without any gives the evidence.
    """
    if a.kinds & TENSOR and b.kinds & TENSOR:
        source = a if _evidence_order(a) <= _evidence_order(b) else b
        return (
            a.dtype if a.dtype == b.dtype else "",
            a.device if a.device == b.device else ANYWHERE,
            a.ndim if a.ndim == b.ndim else -1,
            _joined_needs(a.needs, b.needs),
            source.why,
        )
    for one in (a, b):
        if one.kinds & TENSOR:
            return one.dtype, one.device, one.ndim, one.needs, one.why
    whys = [why for why in (a.why, b.why) if why]
    if a.kinds & b.kinds & DTYPE:
        dtype = a.dtype if a.dtype == b.dtype else ""
    else:
        dtype = a.dtype or b.dtype
    needs = a.needs if a.needs == b.needs else ()
    return dtype, ANYWHERE, -1, needs, min(whys) if whys else ""


def _joined_needs(a: tuple[Need, ...], b: tuple[Need, ...]) -> tuple[Need, ...]:
    """Either's; of two results of one function what any call gives."""
    anywhere = of_any_call(a)
    return anywhere if a != b and anywhere == of_any_call(b) else any_of(a, b)


def _evidence_order(value: Value) -> tuple[bool, bool, str]:
    return bool(value.needs), not value.why, value.why


def _joined_elements(
    a: Value, b: Value
) -> tuple[tuple[Value, ...] | None, Value | None, tuple[Key, ...] | None]:
    """Items, item and keys of a container."""
    held = [value for value in (a, b) if _holds_elements(value)]
    if len(held) == 1:
        one = held[0]
        unsaid = one.items is None and one.item is None
        return one.items, UNKNOWN_VALUE if unsaid else one.item, one.keys
    if a.items is not None and b.items is not None:
        if a.keys == b.keys:
            if len(a.items) == len(b.items):
                return tuple(join(x, y) for x, y in zip(a.items, b.items)), None, a.keys
        elif a.keys is not None and b.keys is not None and a.kinds & b.kinds & MAPPING:
            joined = entries(a)
            for key, value in entries(b).items():
                joined[key] = join(joined[key], value) if key in joined else value
            if len(joined) <= _MAX_ITEMS:
                keys = tuple(sorted(joined, key=_key_order))
                return tuple(joined[key] for key in keys), None, keys
    known = [*parts(a), *parts(b)]
    if any(value.items is None and value.item is None for value in held):
        known.append(UNKNOWN_VALUE)
    return (None, join_all(known), None) if known else ((), None, None)


def _holds_elements(value: Value) -> bool:
    containers = value.kinds & (SEQUENCE | MAPPING)
    return bool(containers) or value.items is not None or value.item is not None


def _joined_flags(a: Value, b: Value) -> int:
    flags = (a.flags | b.flags) & _MAY
    if not (a.flags | b.flags) & ~_MAY:
        return flags
    for group, owners in _OWNERS:
        if not a.kinds & owners:
            flags |= b.flags & group
        elif not b.kinds & owners:
            flags |= a.flags & group
        else:
            flags |= a.flags & b.flags & group
    if a.needs and b.needs and of_any_call(a.needs) != of_any_call(b.needs):
        return flags & ~SYMBOL
    return flags


def _joined_classes(a: Value, b: Value) -> str:
    kinds = a.kinds | b.kinds
    if kinds & INSTANCE and kinds & CALLABLE:
        return ""  # a name would not say which of the two it is
    names = {*classes(a), *classes(b)}
    return ",".join(sorted(names)[:_MAX_CLASSES])
