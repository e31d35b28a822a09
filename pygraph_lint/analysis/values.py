"""The abstract values: what an expression may be, as far as the rules care."""

from __future__ import annotations

from typing import NamedTuple

from pygraph_lint.analysis.events import Need

# What a value may be: one bit each, joined by `|`.
TENSOR = 1
NUMBER = 2
NONE = 4
TEXT = 8
SEQUENCE = 16
MAPPING = 32
INSTANCE = 64  # of the class named in `cls`
CALLABLE = 128  # the function or class named in `cls`
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
DECIDED = 8192  # a branch was already taken on it
SYMBOL = 4096  # the value is exactly what its need names, not derived from it


class Value(NamedTuple):
    """What an expression may be.

    ``kinds`` is a set of bits. For tensors: ``dtype`` (``bool``, ``int``, ``float`` or empty),
    ``device`` and ``ndim`` (-1: not known); ``needs`` has to be confirmed when the project is
    linked for the value to be a tensor at all. ``items`` are the elements of a tuple or list of
    known length, ``item`` stands for any element of a container. ``cls`` is a qualified name (for
    callables, several, separated by commas). ``const`` is the value itself where it is a small
    constant. ``why`` is the evidence, a sentence.
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

    @property
    def is_tensor(self) -> bool:
        """Whether the value is a tensor on some path (conditional on ``needs``)."""
        return bool(self.kinds & TENSOR)

    @property
    def is_mask(self) -> bool:
        """Whether the value is a boolean tensor."""
        return bool(self.kinds & TENSOR) and self.dtype == "bool"


UNKNOWN_VALUE = Value(UNKNOWN)
NUMBER_VALUE = Value(NUMBER)
NONE_VALUE = Value(NONE)
TEXT_VALUE = Value(TEXT)
OTHER_VALUE = Value(OTHER)
DEVICE_VALUE = Value(DEVICE)
DTYPE_VALUE = Value(DTYPE)
NUMPY_VALUE = Value(NUMPY)
READ_VALUE = Value(NUMBER, flags=READ)
SEQUENCE_VALUE = Value(SEQUENCE, item=UNKNOWN_VALUE)
SHAPE_VALUE = Value(SEQUENCE, item=NUMBER_VALUE)
MAPPING_VALUE = Value(MAPPING, item=UNKNOWN_VALUE)

_MAX_ITEMS = 16
_MAX_DEPTH = 3


def tensor(
    why: str = "",
    dtype: str = "",
    device: int = ANYWHERE,
    ndim: int = -1,
    flags: int = 0,
    needs: tuple[Need, ...] = (),
) -> Value:
    """A tensor."""
    return Value(TENSOR, dtype, device, ndim, flags, needs, None, None, "", None, why)


def sequence(items: list[Value]) -> Value:
    """A tuple or list of known length."""
    if len(items) > _MAX_ITEMS:
        return Value(SEQUENCE, item=join_all(items))
    return Value(SEQUENCE, items=tuple(shallow(item) for item in items))


def shallow(value: Value, depth: int = _MAX_DEPTH) -> Value:
    """The value without elements nested deeper than ``depth``, so that values stay small in
    loops.
    """
    if value.items is None and value.item is None:
        return value
    if depth == 0:
        return value._replace(items=None, item=UNKNOWN_VALUE)
    items = value.items
    if items is not None:
        items = tuple(shallow(item, depth - 1) for item in items)
    item = value.item
    if item is not None:
        item = shallow(item, depth - 1)
    return value._replace(items=items, item=item)


def join_all(values: list[Value] | tuple[Value, ...]) -> Value:
    """The join of several values; unknown for none."""
    if not values:
        return UNKNOWN_VALUE
    joined = values[0]
    for value in values[1:]:
        joined = join(joined, value)
    return joined


def element(value: Value) -> Value:
    """What iterating over the value, or indexing it with an unknown index, gives."""
    if value.kinds & TENSOR:
        rank = value.ndim - 1 if value.ndim > 0 else -1
        return tensor(value.why, value.dtype, value.device, rank, value.flags & ~FRESH, value.needs)
    if value.items is not None:
        return join_all(value.items) if value.items else UNKNOWN_VALUE
    if value.item is not None:
        return value.item
    if value.kinds & UNKNOWN:
        return UNKNOWN_VALUE
    if value.kinds & TEXT:
        return TEXT_VALUE
    return UNKNOWN_VALUE


def join(a: Value, b: Value) -> Value:
    """What holds on both of two paths."""
    if a is b or a == b:
        return a
    kinds = a.kinds | b.kinds
    a_tensor, b_tensor = a.kinds & TENSOR, b.kinds & TENSOR
    if a_tensor and b_tensor:
        dtype = a.dtype if a.dtype == b.dtype else ""
        device = a.device if a.device == b.device else ANYWHERE
        ndim = a.ndim if a.ndim == b.ndim else -1
        needs = a.needs if a.needs and b.needs else ()
        why = a.why if a.needs == needs or not b.why else b.why
    elif a_tensor:
        dtype, device, ndim, needs, why = a.dtype, a.device, a.ndim, a.needs, a.why
    else:
        dtype, device, ndim, needs, why = b.dtype, b.device, b.ndim, b.needs, b.why or a.why
    items = item = None
    if kinds & (SEQUENCE | MAPPING | UNKNOWN) or a.items or b.items:
        if a.items is not None and b.items is not None and len(a.items) == len(b.items):
            items = tuple(join(x, y) for x, y in zip(a.items, b.items))
        else:
            parts = [*(a.items or ()), *(b.items or ())]
            parts += [part for part in (a.item, b.item) if part is not None]
            if parts:
                item = shallow(join_all(parts), 2)
    sticky = (a.flags | b.flags) & (RANDOM | FINITE | DYNAMIC | READ)
    flags = sticky | (a.flags & b.flags)
    if not a_tensor or not b_tensor:
        flags |= (a.flags if a_tensor else b.flags) & (PLAIN | BUFFER)
    cls = a.cls if a.cls == b.cls or not b.cls else (b.cls if not a.cls else "")
    if (
        a.cls
        and b.cls
        and not cls
        and a.kinds & b.kinds & CALLABLE
        and len(a.cls) + len(b.cls) < 400
    ):
        cls = ",".join(dict.fromkeys([*a.cls.split(","), *b.cls.split(",")]))
    return Value(kinds, dtype, device, ndim, flags, needs, items, item, cls, None, why)
