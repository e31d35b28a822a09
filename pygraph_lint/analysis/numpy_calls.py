"""numpy inside a region: torch.compile traces it as tensors, so its results have no value there."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.nodes import source_of, span_of
from pygraph_lint.analysis.torch_calls import TorchCalls
from pygraph_lint.analysis.values import Value

# From several numbers to one. (A function of a single number is worked out while tracing.)
_REDUCTIONS = frozenset(f"numpy.{name}" for name in ("sum", "prod", "max", "min", "amax", "amin"))
# Of two numbers: arithmetic with the result is traced, a condition on it is not.
_DIVISORS = frozenset(("numpy.lcm", "numpy.gcd"))
_MADE_WITH_SIZES = frozenset(f"numpy.{name}" for name in ("zeros", "ones", "empty", "full"))
_TAKE_SIZES = frozenset(
    ("view", "reshape", "expand", "repeat", "unflatten", "new_zeros", "new_ones", "new_empty")
)


class NumpyCalls(TorchCalls):
    """Calls into numpy, and where a number it made is needed."""

    def call_numpy(self, name: str, values: list[Value], node: ast.Call) -> Value:
        """numpy functions called on tensors copy them to the host."""
        draws = name.startswith("numpy.random.") and name != "numpy.random.seed"
        if draws and not self.context.sinks.has_call(name):
            self.event("effect.numpy-random", span_of(node), name)
        if name in _MADE_WITH_SIZES and node.args:
            self.needs_number(node.args[0])
        for value in values:
            for part in (value, *(value.items or ())):
                if part.is_tensor and not (part.kinds & v.UNKNOWN):
                    self.event("sync.numpy", span_of(node), name, part)
                    return v.NUMPY_VALUE
        if name in _DIVISORS and len(node.args) == 2:
            self.event("host.numpy-number", span_of(node), name)
        return v.NUMPY_VALUE

    def sized_by(self, spelled: str, sizes: list[Value], node: ast.Call) -> None:
        """Sizes of a factory."""
        super().sized_by(spelled, sizes, node)
        for argument in node.args:
            self.needs_number(argument)

    def tensor_method(
        self, base: Value, method: str, function: ast.Attribute, node: ast.Call
    ) -> Value:
        """``t.method(...)``; some take sizes."""
        result = super().tensor_method(base, method, function, node)
        if method in _TAKE_SIZES:
            for argument in node.args:
                self.needs_number(argument)
        return result

    def needs_number(self, node: ast.expr) -> None:
        """The value of ``node``, or of each of a tuple's elements, is needed while tracing."""
        for part in node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node]:
            if isinstance(part, ast.Subscript) and not isinstance(part.slice, ast.Slice):
                self.numpy_element(part)
            if not isinstance(part, ast.Call):
                continue
            name = self.qualified(part.func)
            several = len(part.args) == 1 and not _has_one_element(part.args[0])
            place = span_of(part)
            read = self.events.get(("sync.numpy", place.line, place.column))
            if name in _REDUCTIONS and several and (read is None or read.needs):
                self.event("host.numpy-number", place, name)

    def numpy_element(self, node: ast.Subscript) -> None:
        """An element of an array that numpy made of Python numbers."""
        if self.ev_quiet(node).kinds == v.NUMPY:
            self.event("host.numpy-number", span_of(node), source_of(node))

    def numpy_item(self, holder: ast.expr, node: ast.Call) -> None:
        """``.item()`` of what numpy made: a conversion in between hides the value."""
        self.needs_number(holder)
        function = holder.func if isinstance(holder, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "astype":
            self.event("host.numpy-number", span_of(node), "astype(...).item()")


def _has_one_element(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) == 1
