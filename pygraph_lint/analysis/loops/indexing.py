"""What an index costs on every step of a training loop, where a tensor is read or stored to."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.loops.calls import INDICES, cost, is_batch, is_read, on_device
from pygraph_lint.analysis.loops.values import LoopValues
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, source_of

_OF_MASKS = frozenset(
    (
        *("eq", "ne", "lt", "le", "gt", "ge", "bool", "isnan", "isfinite", "isinf", "any", "all"),
        *("logical_and", "logical_or", "logical_not", "isin", "isclose"),
    )
)
# Methods that give the same values in another shape or place.
_SHAPING = frozenset(
    (
        *("view", "reshape", "flatten", "squeeze", "unsqueeze", "expand", "expand_as", "view_as"),
        *("to", "cuda", "detach", "clone", "contiguous"),
    )
)
# What is read, or copied, where the advice depends on it.
_BOUND, _MASK, _INDEX = ((("bound", "yes"),), (("mask", "yes"),), (("index", "yes"),))


class Indexing:
    """Events of subscripts of tensors."""

    def __init__(self, values: LoopValues) -> None:
        self._values = values

    def selected(self, node: ast.Subscript) -> Iterator[Event]:
        """``x[mask]``: the size of the result has to be known. ``x[rows]``: these are copied."""
        base, bound = self._values.of(node.value), next(self._bounds(node), None)
        if bound is not None:
            if not bound.needs or not _is_on_host(base):  # where that is, numbers mostly are
                yield bound
        elif on_device(base):
            yield from self._indices(node, base, base)

    def _indices(self, node: ast.Subscript, base: Value, about: Value | None) -> Iterator[Event]:
        """Indices that are copied, and masks that are read; the latter say ``about`` what."""
        for part in _parts(node):
            copied = self._copied(node, part, base)
            if copied is not None:
                yield from copied
            elif about is not None and self._selects(part):
                yield cost("loop.read", node, source_of(node, 40), about, _MASK)

    def stored(self, node: ast.Subscript) -> Iterator[Event]:
        """``x[rows] = y``, where ``rows`` or ``y`` are copied; ``x[mask] = y``, where a number can
        be filled in without a wait.
        """
        base = self._values.of(node.value)
        statement = self._values.queries.parent(node)
        if not on_device(base) or not isinstance(statement, (ast.Assign, ast.AugAssign)):
            return
        value = self._values.of(statement.value)
        about = value._replace(needs=(*base.needs, *value.needs))
        if _is_on_host(value):
            yield cost("loop.copy", node, source_of(node, 40), about)
            return
        added = isinstance(statement, ast.AugAssign)
        read = base if added else about if on_device(value) else None
        yield from self._indices(node, base, read)

    def _bounds(self, node: ast.Subscript) -> Iterator[Event]:
        """Bounds of a slice that only the device knows."""
        for part in _parts(node):
            for bound in (part.lower, part.upper) if isinstance(part, ast.Slice) else ():
                value = self._values.of(bound) if bound is not None else v.NONE_VALUE
                if bound is not None and is_read(value):
                    yield cost("loop.read", bound, source_of(node, 40), value, _BOUND)

    def _copied(self, node: ast.Subscript, part: ast.expr, base: Value) -> Iterator[Event] | None:
        """The event of an index that is on the host; None for others."""
        index = self._values.of(part)
        known = (is_batch(index) and not base.needs) or not index.kinds & v.UNKNOWN
        host = known and index.is_tensor and index.device == v.ON_HOST
        if is_batch(index) and self._is_mask(part):
            host = False
        rows = index.kinds & v.NUMPY or index.cls == INDICES.cls or _is_range(part)
        if not host and not rows:
            return None
        if "annotated" in base.why:
            return iter(())
        about = index._replace(needs=(*base.needs, *index.needs))
        return iter((cost("loop.copy", node, source_of(node, 40), about, _INDEX),))

    def _selects(self, part: ast.expr) -> bool:
        """Whether an index is a mask of the device."""
        index = self._values.of(part)
        return self._is_mask(part) and (index.device != v.ON_HOST or is_batch(index))

    def _is_mask(self, index: ast.expr, depth: int = 3) -> bool:
        """Whether an index is a mask, by the way that it is made or named."""
        if isinstance(index, ast.Compare):
            return True
        if isinstance(index, ast.BinOp) and isinstance(index.op, (ast.BitAnd, ast.BitOr)):
            return self._is_mask(index.left) or self._is_mask(index.right)
        if isinstance(index, ast.UnaryOp):
            return isinstance(index.op, ast.Invert) and self._is_mask(index.operand)
        if isinstance(index, ast.Call):
            function = index.func
            if isinstance(function, ast.Attribute) and function.attr in _SHAPING:
                return self._is_mask(function.value, depth)
            return last_part(function) in _OF_MASKS
        if isinstance(index, ast.Name):
            value = self._values.queries.only_value(index)
            if value is not None and depth and self._is_mask(value, depth - 1):
                return True
        return (dotted(index) or "").lower().endswith("mask")


def _parts(node: ast.Subscript) -> list[ast.expr]:
    """The index of each dimension."""
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _is_on_host(value: Value) -> bool:
    """Whether a value is certainly a tensor or an array of the host."""
    if value.kinds & v.UNKNOWN:
        return False
    return bool(value.kinds & v.NUMPY) or (value.is_tensor and value.device == v.ON_HOST)


def _is_range(node: ast.expr) -> bool:
    """Whether rows are chosen by ``range(n)``, whose numbers are copied one by one."""
    return isinstance(node, ast.Call) and dotted(node.func) == "range"
