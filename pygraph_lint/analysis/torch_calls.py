"""What torch functions and tensor methods give, and what they cost."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import constant, merge_device
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.factories import Factories
from pygraph_lint.analysis.model import Root
from pygraph_lint.analysis.nodes import dotted, source_of, span_of
from pygraph_lint.analysis.values import Value

_FLOW = v.RANDOM | v.FINITE | v.DYNAMIC
_MADE = ("host.factory", "host.scalar-tensor", "host.data-tensor")


class TorchCalls(Factories):
    """Calls into torch."""

    # -- torch.name(...)

    def call_torch(self, name: str, head: str, tail: str, node: ast.Call) -> Value:
        """A call of ``torch.<...>``."""
        if name in ops.FOLDED_TRUE:
            return constant(True)
        if name in ops.FOLDED_FALSE:
            return constant(False)
        if name in ops.REGION_ENDS:  # What is named here is not part of the region.
            return v.UNKNOWN_VALUE
        if name in ops.PARAMETERS:
            self.arguments(node)
            self.event("effect.parameter-made", span_of(node), name)
            return v.tensor(f"made by {name}", "float", v.ON_DEVICE, flags=v.BUFFER)
        if head in ("torch.nn", "torch.nn.modules") or head.startswith("torch.nn.modules."):
            return self.make_layer(name, node)
        if head == "torch":
            other = ops.NOT_TENSORS.get(tail)
            if other is not None:
                positional, _ = self.arguments(node)
                return _other(other, positional)
            if tail == "compile":
                positional, named = self.arguments(node)
                return self.compiled(name, node, [*positional, *named.values()])
            if tail in ops.FACTORIES:
                return self.make_factory(tail, node)
            if tail in ops.FROM_DATA or tail in ops.TYPED_CONSTRUCTORS:
                return self.make_from_data(tail, node)
            if tail in ops.DTYPES:
                return v.UNKNOWN_VALUE
        elif head == "torch.random":
            return v.OTHER_VALUE
        positional, named = self.arguments(node)
        if name in ops.COMPILERS or name in ops.GRAPHERS:
            return self.compiled(name, node, [*positional, *named.values()])
        if name in ("torch.utils.checkpoint.checkpoint", "torch.cond") and positional:
            results = [
                self.call_passed(value, node, positional[1:])
                for value in positional
                if value.kinds & v.CALLABLE
            ]
            return v.join_all(results) if results else v.UNKNOWN_VALUE
        if name == "torch.nn.utils.rnn.pack_padded_sequence":
            lengths = (
                positional[1] if len(positional) > 1 else named.get("lengths", v.UNKNOWN_VALUE)
            )
            if lengths.is_tensor and lengths.device != v.ON_HOST:
                self.event("host.lengths", span_of(node), name, lengths)
            return v.OTHER_VALUE
        if name.startswith(ops.OTHER_NAMESPACES) and not name.startswith("torch.nn."):
            return Value(v.OTHER, cls=name)
        if head == "torch" and tail.startswith("_foreach"):
            return Value(
                v.SEQUENCE,
                item=v.tensor(f"torch.{tail} returns tensors", device=merge_device(positional)),
            )
        if head == "torch" or name.startswith(ops.TENSOR_NAMESPACES) or head == "torch.Tensor":
            return self.operator(tail, f"torch.{tail}", positional, named, node, None)
        return v.UNKNOWN_VALUE

    def compiled(self, name: str, node: ast.Call, values: list[Value]) -> Value:
        """``torch.compile(x)``, ``make_graphed_callables((x, y), ...)``: regions start at what is
        passed.
        """
        if not values:
            return v.UNKNOWN_VALUE
        first = values[0]
        for value in (first, *(first.items or ())):
            if value.kinds & v.INSTANCE and value.cls and not value.flags & v.MODULE:
                root = Root("instance", value.cls, f"passed to {name}", node.lineno)
            elif value.kinds & v.CALLABLE and value.cls:
                root = Root("function", value.cls, f"passed to {name}", node.lineno)
            else:
                continue
            if root not in self.context.facts.roots:
                self.context.facts.roots.append(root)
        return first

    def call_passed(self, function: Value, node: ast.Call, positional: list[Value]) -> Value:
        """A function handed to torch that calls it."""
        if function.cls:
            owner, _, method = function.cls.rpartition(".")
            if owner in self.context.class_nodes:
                self.record_call("method", owner, method, node, positional)
            else:
                self.record_call("function", function.cls, "", node, positional)
            return v.Value(
                v.TENSOR | v.UNKNOWN,
                device=v.ON_DEVICE,
                flags=v.SYMBOL,
                needs=(Need("return", function.cls, ""),),
                why="returned by a checkpointed function",
            )
        return v.UNKNOWN_VALUE

    # -- operators, as function or method

    def operator(
        self,
        name: str,
        spelled: str,
        positional: list[Value],
        named: dict[str, Value],
        node: ast.Call,
        receiver: Value | None,
    ) -> Value:
        """An operator of torch, called as ``torch.name(x, ...)`` or ``x.name(...)``."""
        operands = [*([receiver] if receiver is not None else []), *positional, *named.values()]
        flat = [
            part for value in operands for part in ((value,) if value.is_tensor else _held(value))
        ]
        tensors = [value for value in flat if value.is_tensor]
        source = receiver if receiver is not None else (tensors[0] if tensors else None)
        why = (
            source.why
            if receiver is not None and source is not None
            else f"{spelled} returns a tensor"
        )
        needs = receiver.needs if receiver is not None else ()
        device = merge_device(tensors)
        flags = 0
        for value in tensors:
            flags |= value.flags & _FLOW
        if name in ops.RANDOM_FACTORIES or name == "bernoulli":
            flags |= v.RANDOM
        if name in ops.FINITE_OPS:
            flags |= v.FINITE
        self.operator_events(name, spelled, positional, named, node, receiver, source)
        if name in ops.SIZED:
            sizes = positional if receiver is not None else positional[1:]
            self.sized_by(
                spelled,
                [*sizes, *(named[key] for key in ("size", "pad", "shape") if key in named)],
                node,
            )
        if (
            not tensors
            and name in ops.OF_NUMBERS
            and positional
            and all(x.kinds == v.NUMBER for x in positional)
        ):
            self.event("host.scalar-tensor", span_of(node), f"{spelled} of Python numbers")
            return v.tensor(f"made by {spelled}", "", v.ON_HOST, 0)
        if name in ("nonzero", "argwhere", "unique", "unique_consecutive", "masked_select"):
            flags |= v.DYNAMIC
        if name in ("equal", "allclose", "is_nonzero"):
            self.event("sync.equal", span_of(node), f"{spelled}()", source)
            return v.READ_VALUE
        if name in ops.FACTORIES_LIKE:
            self.wants_grad(named, node)
        kind = _result_dtype(name, source, tensors, named)
        result = v.tensor(
            why, kind, device, _rank(name, source, positional, named, receiver), flags, needs
        )
        if len(tensors) > 1 and receiver is None:
            self.meet_operands(node, positional)
        return _shaped(name, result, positional, named, receiver)

    def meet_operands(self, node: ast.Call, positional: list[Value]) -> None:
        """A host tensor that meets a device tensor in one call."""
        pairs = [
            (argument, value) for argument, value in zip(node.args, positional) if value.is_tensor
        ]
        for index, (one_node, one) in enumerate(pairs):
            for other_node, other in pairs[index + 1 :]:
                self.meet(one_node, one, other_node, other)

    def operator_events(
        self,
        name: str,
        spelled: str,
        positional: list[Value],
        named: dict[str, Value],
        node: ast.Call,
        receiver: Value | None,
        source: Value | None,
    ) -> None:
        """What an operator costs besides its result."""
        handler = _COSTS.get(name)
        if handler is None:
            return
        arguments = positional if receiver is None else [receiver, *positional]
        if name == "where":
            if (
                len(arguments) == 1
                and not named
                and not any(isinstance(a, ast.Starred) for a in node.args)
            ):
                self.event(handler, span_of(node), "torch.where with one argument", source)
        elif name == "repeat_interleave":
            repeats = arguments[1] if len(arguments) > 1 else named.get("repeats", v.NUMBER_VALUE)
            if repeats.is_tensor and "output_size" not in named:
                self.event(handler, span_of(node), spelled, repeats)
        elif name == "one_hot":
            if len(arguments) < 2 and "num_classes" not in named:
                self.event(handler, span_of(node), spelled, source)
        elif name in ("split", "chunk", "tensor_split", "split_with_sizes"):
            sizes = (
                arguments[1]
                if len(arguments) > 1
                else named.get("split_size_or_sections", v.NUMBER_VALUE)
            )
            for part in (sizes, *(sizes.items or ())):
                if part.is_tensor and not part.kinds & v.UNKNOWN:
                    self.event(handler, span_of(node), spelled, part)
                    break
        elif name == "ctc_loss" or source is not None or receiver is not None or positional:
            self.event(handler, span_of(node), spelled, source)

    # -- methods

    def tensor_method(
        self, base: Value, method: str, function: ast.Attribute, node: ast.Call
    ) -> Value:
        """``t.method(...)`` on a tensor."""
        positional, named = self.arguments(node)
        if self.is_sink_method(method):
            self.event("method", span_of(node), f".{method}", base)
        if method in ops.NUMBER_METHODS:
            return (
                v.SHAPE_VALUE
                if method in ("size", "stride") and not positional and not named
                else v.NUMBER_VALUE
            )
        if method in ("item", "__index__", "__int__", "__float__"):
            numbers = {"numbers": "0-d"} if base.ndim == 0 else {"numbers": "one"}
            self.event("sync.item", span_of(node), f".{method}()", base, **numbers)
            return v.READ_VALUE
        if method == "tolist":
            self.event("sync.tolist", span_of(node), ".tolist()", base)
            return Value(v.SEQUENCE, item=v.READ_VALUE)
        if method == "numpy":
            self.event("sync.numpy", span_of(node), ".numpy()", base)
            return v.NUMPY_VALUE
        if method == "pin_memory":
            self.event("host.pinned", span_of(node), ".pin_memory()", base)
            return base
        if method in ("to", "cuda", "cpu", "type"):
            return self.moved(base, method, function, positional, named, node)
        if method in ops.CAST_METHODS:
            return _plain(base)._replace(dtype=ops.CAST_METHODS[method])
        if method in ops.NEW_FACTORIES or method in ops.FACTORIES_LIKE:
            return self.new_tensor(base, method, positional, named, node)
        if method in ops.OTHER_METHODS:
            return v.UNKNOWN_VALUE
        if method == "type_as" and positional:
            return _plain(base)._replace(dtype=positional[0].dtype, device=positional[0].device)
        if method in ops.RANDOM_METHODS:
            return _plain(base)._replace(flags=(base.flags | v.RANDOM) & ~v.SYMBOL)
        if method in (
            "copy_",
            "fill_",
            "zero_",
            "masked_fill_",
            "add_",
            "mul_",
            "requires_grad_",
            "set_",
            "resize_",
        ):
            return _plain(base)
        return self.operator(method, f".{method}()", positional, named, node, _plain(base))

    def is_sink_method(self, method: str) -> bool:
        """Whether some rule lists the tensor method."""
        return method in self.context.sinks.methods

    def moved(
        self,
        base: Value,
        method: str,
        function: ast.Attribute,
        positional: list[Value],
        named: dict[str, Value],
        node: ast.Call,
    ) -> Value:
        """``.to(...)``, ``.cuda()``, ``.cpu()``, ``.type(...)``."""
        plain = _plain(base)
        target = v.ANYWHERE
        if method == "cpu":
            target = v.ON_HOST
        elif method == "cuda":
            target = v.ON_DEVICE
        else:
            for value in [*positional, *named.values()]:
                if value.kinds & v.DTYPE and value.dtype:
                    plain = plain._replace(dtype=value.dtype)
                elif value.kinds & v.DTYPE:
                    plain = plain._replace(
                        dtype="bool" if plain.dtype == "bool" and method == "type_" else ""
                    )
                elif value.kinds == v.TEXT and isinstance(value.const, str):
                    target = v.ON_HOST if value.const == "cpu" else v.ON_DEVICE
                elif value.kinds & v.DEVICE:
                    target = v.ON_HOST if value.flags & v.DEVICE_CPU else v.ON_DEVICE
                elif value.is_tensor and (
                    not value.needs or not value.flags & v.SYMBOL or value.dtype
                ):
                    target = value.device
                    plain = plain._replace(dtype=value.dtype)
                elif value.is_tensor and value.needs[0].kind == "param" and base.flags & v.FRESH:
                    target = v.ON_DEVICE
                elif value.kinds & v.UNKNOWN and method == "to":
                    name = dotted(node.args[0]) if node.args else None
                    if name is not None and name.rpartition(".")[2] in ("device", "_device", "dev"):
                        target = v.ON_DEVICE
                    elif name is not None and "dtype" in name:
                        plain = plain._replace(dtype="")
                    else:
                        return plain._replace(dtype="", device=v.ANYWHERE)
        said = method == "cpu" or _says_cpu([*positional, *named.values()])
        if target == v.ON_HOST and (
            base.device == v.ON_DEVICE or (said and base.device != v.ON_HOST)
        ):
            spelled = ".to('cpu')" if method == "to" else f".{method}()"
            self.event("sync.copy", span_of(node), spelled, base)
        if target == v.ON_DEVICE and base.device == v.ON_HOST:
            self.moved_to_device(base, function, node)
        elif target == v.ON_DEVICE and base.device == v.ANYWHERE and base.needs:
            origin = base.needs[0]
            if origin.kind == "return" and not self.quiet:
                at_home = Value(
                    v.TENSOR,
                    needs=(Need("host", origin.owner, origin.name),),
                    why="made on the host",
                )
                self.event("host.moved", span_of(node), source_of(node, 40), at_home)
        if target != v.ANYWHERE:
            plain = plain._replace(device=target)
        return plain

    def moved_to_device(self, base: Value, function: ast.Attribute, node: ast.Call) -> None:
        """A host tensor copied to the device: one event for the pair of factory and move."""
        inner = function.value
        if isinstance(inner, ast.Call):
            for kind in _MADE:
                key = (kind, inner.lineno, inner.col_offset)
                made = self.events.get(key)
                if made is not None:
                    if kind == "host.factory":
                        del self.events[key]
                        self.event("host.factory-moved", span_of(node), made.subject, base)
                    return
        self.event("host.moved", span_of(node), source_of(node, 40), base)


def _says_cpu(values: list[Value]) -> bool:
    return any(value.const == "cpu" for value in values)


def _plain(value: Value) -> Value:
    """The tensor as the result of an operation: no longer the attribute or argument itself."""
    return value._replace(
        flags=value.flags & _FLOW,
        items=None,
        item=None,
        kinds=value.kinds & v.TENSOR | (value.kinds & v.UNKNOWN),
    )


def _held(value: Value) -> tuple[Value, ...]:
    if value.items is not None:
        return value.items
    return (value.item,) if value.item is not None else ()


def _other(kind: str, positional: list[Value]) -> Value:
    if kind == "number":
        return v.NUMBER_VALUE
    if kind == "dtype":
        return v.DTYPE_VALUE
    if kind == "device":
        cpu = bool(positional) and positional[0].const == "cpu"
        return Value(v.DEVICE, flags=v.DEVICE_CPU if cpu else 0)
    return v.OTHER_VALUE


def _result_dtype(
    name: str, source: Value | None, tensors: list[Value], named: dict[str, Value]
) -> str:
    said = named.get("dtype")
    if said is not None:
        return said.dtype
    if name in ops.BOOL_OPS or name in ("any", "all"):
        return "bool"
    if name in ops.INT_OPS:
        return "int"
    if source is None:
        return ""
    if name in ("nonzero", "argwhere"):
        return "int"
    if name == "where":
        kinds = {value.dtype for value in tensors[1:]}
        return kinds.pop() if len(kinds) == 1 else ""
    if name in ops.KEEP_DTYPE:
        if name in ("cat", "stack", "concat"):
            kinds = {value.dtype for value in tensors}
            return kinds.pop() if len(kinds) == 1 else ""
        return source.dtype
    if name in ("sum", "cumsum", "prod") and source.dtype in ("bool", "int"):
        return "int"
    if name in (
        "softmax",
        "log_softmax",
        "sigmoid",
        "mean",
        "sqrt",
        "exp",
        "log",
        "linear",
        "layer_norm",
        "relu",
        "matmul",
        "bmm",
        "gelu",
        "dropout",
        "embedding",
        "scaled_dot_product_attention",
        "interpolate",
    ):
        return "float"
    return source.dtype if source.dtype == "float" else ""


def _rank(
    name: str,
    source: Value | None,
    positional: list[Value],
    named: dict[str, Value],
    receiver: Value | None,
) -> int:
    if name in ops.REDUCTIONS:
        rest = positional if receiver is not None else positional[1:]
        if not rest and not {"dim", "axis", "keepdim"} & set(named):
            return 0
        return -1
    if source is not None and name in ops.BOOL_OPS | {
        "abs",
        "neg",
        "clamp",
        "clone",
        "detach",
        "float",
        "masked_fill",
    }:
        return source.ndim
    return -1


def _shaped(
    name: str,
    result: Value,
    positional: list[Value],
    named: dict[str, Value],
    receiver: Value | None,
) -> Value:
    """One tensor, or the tuple or list of tensors the operator gives."""
    rest = positional if receiver is not None else positional[1:]
    if name in ops.PAIRS_ALWAYS or (
        name in ops.PAIRS
        and ("dim" in named or "keepdim" in named or (bool(rest) and not rest[0].is_tensor))
    ):
        indices = result._replace(dtype="int")
        return Value(v.SEQUENCE, items=(result, indices), flags=v.RESULT)
    if name in ops.LISTS:
        return Value(v.SEQUENCE, item=result._replace(ndim=-1))
    count = ops.TUPLES.get(name)
    if count:
        return v.sequence([result] * count)
    if (name == "where" and len(rest) == 0 and receiver is None) or (
        name == "nonzero" and "as_tuple" in named
    ):
        return Value(v.SEQUENCE, item=result._replace(dtype="int", flags=result.flags | v.DYNAMIC))
    if name in ("unique", "unique_consecutive") and (
        "return_inverse" in named or "return_counts" in named
    ):
        return Value(v.SEQUENCE, item=result)
    return result


_COSTS: dict[str, str] = {
    "nonzero": "shape.nonzero",
    "argwhere": "shape.nonzero",
    "where": "shape.nonzero",
    "masked_select": "shape.mask-read",
    "unique": "shape.unique",
    "unique_consecutive": "shape.unique",
    "bincount": "shape.bincount",
    "repeat_interleave": "shape.repeat-interleave",
    "one_hot": "shape.one-hot",
    "split": "shape.split",
    "split_with_sizes": "shape.split",
    "tensor_split": "shape.split",
    "ctc_loss": "host.lengths",
}
