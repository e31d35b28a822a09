"""Tensors made in a region: factories, data from the host, layers."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import merge_device
from pygraph_lint.analysis.expressions import Expressions
from pygraph_lint.analysis.nodes import span_of
from pygraph_lint.analysis.values import Value

_SIZE_NAMES = ("end", "start", "step", "steps", "size", "n")


class Factories(Expressions):
    """Evaluates calls that make tensors."""

    def arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        """Provided by the class that handles calls."""
        raise AssertionError("mixed in by Calls")

    def make_layer(self, name: str, node: ast.Call) -> Value:
        """``nn.Linear(...)``: a module instance."""
        positional, _ = self.arguments(node)
        if name in ops.NOT_LAYERS:
            return v.UNKNOWN_VALUE
        if name.rpartition(".")[2] in ops.PARAMETER_LAYERS:
            self.event("effect.parameter-made", span_of(node), name)
        canonical = "torch.nn." + name.rpartition(".")[2]
        if canonical in ops.CONTAINER_LAYERS:
            held = v.element(positional[0]) if positional else v.UNKNOWN_VALUE
            if canonical.startswith("torch.nn.Parameter"):
                held = v.tensor("held by a ParameterList", "float", v.ON_DEVICE, flags=v.BUFFER)
            return Value(v.SEQUENCE, item=held)
        return Value(v.INSTANCE, flags=v.MODULE, cls=canonical)

    def placement(
        self, node: ast.Call, named: dict[str, Value], where: int = -1
    ) -> tuple[int, bool]:
        """Where a factory puts its tensor, and whether the call says so."""
        for keyword in node.keywords:
            if keyword.arg is None:
                return v.ANYWHERE, True
            if keyword.arg == "device":
                if isinstance(keyword.value, ast.Constant):
                    if keyword.value.value is None:
                        return v.ON_HOST, False
                    if str(keyword.value.value) in ("cpu", "meta"):
                        return v.ON_HOST, True
                    return v.ON_DEVICE, True
                value = named["device"]
                return (v.ON_HOST if value.flags & v.DEVICE_CPU else v.ON_DEVICE), True
            if keyword.arg == "out":
                return v.ANYWHERE, True
        if self.device_context:
            return v.ON_DEVICE, True
        return v.ON_HOST, False

    def make_factory(self, tail: str, node: ast.Call) -> Value:
        """torch.arange, zeros, ...: on the host unless told otherwise."""
        positional, named = self.arguments(node)
        if tail == "normal" and any(value.is_tensor for value in positional):
            where = merge_device([*positional, *named.values()])
            return v.tensor("torch.normal returns a tensor", "float", where, flags=v.RANDOM)
        device, said = self.placement(node, named)
        kind = _dtype_of(named)
        if not kind:
            if tail in ops.INT_FACTORIES:
                kind = "int"
            elif tail == "arange":
                floats = any(isinstance(value.const, float) for value in positional)
                kind = (
                    "float"
                    if floats
                    else ("int" if all(value.kinds & v.NUMBER for value in positional) else "")
                )
            elif tail == "full":
                fill = (
                    positional[1]
                    if len(positional) > 1
                    else named.get("fill_value", v.UNKNOWN_VALUE)
                )
                kind = {bool: "bool", int: "int", float: "float"}.get(type(fill.const), "")
            else:
                kind = "float"
        sizes = positional[:1] if tail == "full" else positional
        self.sized_by(
            f"torch.{tail}", [*sizes, *(named[name] for name in _SIZE_NAMES if name in named)], node
        )
        flags = v.FRESH | (v.RANDOM if tail in ops.RANDOM_FACTORIES else 0)
        if any((value.flags & v.READ) for value in positional):
            flags |= v.DYNAMIC
        ndim = _rank_of_sizes(tail, positional, node)
        if not said:
            self.event("host.factory", span_of(node), f"torch.{tail}")
        self.wants_grad(named, node)
        return v.tensor(f"made by torch.{tail}", kind, device, ndim, flags)

    def wants_grad(self, named: dict[str, Value], node: ast.Call) -> None:
        """A factory with requires_grad=True makes a leaf in the middle of the region."""
        wanted = named.get("requires_grad")
        if wanted is not None and wanted.const is not False:
            self.event("effect.requires-grad", span_of(node), "requires_grad=True")

    def sized_by(self, spelled: str, sizes: list[Value], node: ast.Call) -> None:
        """A size given as a tensor has to be read on the host."""
        for value in sizes:
            for part in (value, *(value.items or ())):
                said = part.kinds == v.NUMBER and part.needs and part.const is None
                if said or (part.is_tensor and (part.needs or not part.kinds & v.UNKNOWN)):
                    self.event("shape.from-value", span_of(node), spelled, part)
                    return

    def make_from_data(self, tail: str, node: ast.Call) -> Value:
        """torch.tensor(data) and its kin."""
        positional, named = self.arguments(node)
        data = positional[0] if positional else named.get("data", v.UNKNOWN_VALUE)
        device, said = self.placement(node, named)
        kind = _dtype_of(named)
        if not kind:
            kind = {bool: "bool", int: "int", float: "float"}.get(type(data.const), "")
        if tail in ops.TYPED_CONSTRUCTORS:
            kind = {"BoolTensor": "bool", "LongTensor": "int", "IntTensor": "int"}.get(
                tail, "float"
            )
            if tail == "Tensor" and data.kinds & v.NUMBER:
                self.event("host.factory", span_of(node), f"torch.{tail}")
                return v.tensor(f"made by torch.{tail}", kind, v.ON_HOST, flags=v.FRESH)
        if data.is_tensor and not data.needs and not data.kinds & (v.SEQUENCE | v.UNKNOWN):
            if tail in ("as_tensor", "asarray", "Tensor"):
                return data._replace(
                    flags=data.flags & ~v.SYMBOL, device=device if said else data.device
                )
            return data._replace(flags=data.flags & ~v.SYMBOL, why=f"made by torch.{tail}")
        inner = v.element(data) if data.kinds & v.SEQUENCE else data
        if data.items == () or inner.items == ():  # a placeholder: nothing to copy
            return v.tensor(f"made by torch.{tail}", kind or "float", device, flags=v.FRESH)
        elements = (
            data.items
            if data.items is not None
            else ((data.item,) if data.item is not None else ())
        )
        for part in elements:
            if part.is_tensor:
                self.event("sync.number", span_of(node), f"torch.{tail} of tensors", part)
                break
        if data.kinds & v.UNKNOWN and tail in ("as_tensor", "asarray", "from_numpy"):
            return v.tensor(f"made by torch.{tail}", kind, device if said else v.ANYWHERE)
        if data.kinds == v.NUMBER and not said:
            self.event("host.scalar-tensor", span_of(node), f"torch.{tail}")
            ndim = 0
        else:
            number = {"number": "yes"} if data.kinds == v.NUMBER else {}
            notes = {**_placed(said), **number}
            self.event("host.data-tensor", span_of(node), f"torch.{tail}", None, **notes)
            ndim = 0 if number else -1
        return v.tensor(f"made by torch.{tail}", kind, device, ndim, v.FRESH)

    def new_tensor(
        self,
        base: Value,
        method: str,
        positional: list[Value],
        named: dict[str, Value],
        node: ast.Call,
    ) -> Value:
        """``x.new_zeros(...)`` and ``x.new_tensor(data)``: on x's device."""
        kind = _dtype_of(named) or base.dtype
        if method == "new_tensor":
            self.event("host.data-tensor", span_of(node), ".new_tensor()", placed="yes")
        else:
            self.sized_by(
                f".{method}()", positional[:1] if method == "new_full" else positional, node
            )
        return v.tensor(f"made by .{method}()", kind, base.device, needs=base.needs)


def _placed(said: bool) -> dict[str, str]:
    return {"placed": "yes"} if said else {}


def _dtype_of(named: dict[str, Value]) -> str:
    value = named.get("dtype")
    return value.dtype if value is not None else ""


def _rank_of_sizes(tail: str, positional: list[Value], node: ast.Call) -> int:
    if tail in ("arange", "linspace", "logspace", "randperm"):
        return 1
    if tail in ("rand", "randn", "zeros", "ones", "empty", "full"):
        if not positional:
            return -1
        first = positional[0]
        if first.kinds & v.SEQUENCE:
            return len(first.items) if first.items is not None else -1
        if tail != "full" and not any(isinstance(argument, ast.Starred) for argument in node.args):
            return len(positional)
    return -1
