"""Calls: torch functions, tensor methods, Python's builtins, and edges to the project's own
functions.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from typing import Any

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import constant, extend, merge_device, symbol
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.nodes import dotted, short, source_of, span_of
from pygraph_lint.analysis.numpy_calls import NumpyCalls
from pygraph_lint.analysis.values import Value

_OUTSIDE = frozenset(sys.stdlib_module_names) | {
    "torch",
    "numpy",
    "builtins",
    "einops",
    "PIL",
    "scipy",
    "jax",
}
_LOG_METHODS = frozenset(
    """
        debug info warning warn error critical exception log warning_once info_once debug_once
        warning_advice warning_rank0 info_rank0 error_once fatal
    """.split()
)
_EINOPS = frozenset(
    ("einops.rearrange", "einops.reduce", "einops.repeat", "einops.einsum", "einops.layers.torch")
)
_COMPARING = frozenset(("builtins.max", "builtins.min", "builtins.sorted"))


class Calls(NumpyCalls):
    """Evaluates calls."""

    def ev_call(self, node: ast.Call) -> Value:
        function = node.func
        if isinstance(function, ast.Call) and self.qualified(function.func) in ops.DISABLERS:
            self.event("effect.disabled-call", span_of(node), source_of(function))
        name = self.qualified(function)
        if name is not None:
            value = self.call_named(name, node)
            if value is not None:
                return value
        if isinstance(function, ast.Attribute):
            return self.call_method(function, node)
        return self.call_value(self.ev(function), node)

    # -- arguments

    def arguments(self, node: ast.Call) -> tuple[list[Value], dict[str, Value]]:
        """The values of a call's arguments; what a starred argument holds stands for one."""
        positional = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                positional.append(v.element(self.ev(argument.value)))
            else:
                positional.append(self.ev(argument))
        named = {}
        for keyword in node.keywords:
            value = self.ev(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = value
        return positional, named

    # -- by qualified name

    def call_named(self, name: str, node: ast.Call) -> Value | None:
        """A call of something with a qualified name; None where the name says nothing."""
        head, _, tail = name.rpartition(".")
        if isinstance(node.func, ast.Attribute):
            root = _root(node.func)
            if root is not None and root not in self.env:
                base = self.context.module_values.get(root)
                if (
                    base is not None
                    and base.kinds != v.CALLABLE
                    and dotted(node.func) == f"{root}.{tail}"
                ):
                    return None
        if self.context.sinks.has_call(name.removeprefix("builtins.")):
            self.event("call", span_of(node), name.removeprefix("builtins."))
        if head == "builtins":
            return self.call_builtin(tail, node)
        if name.startswith("torch."):
            return self.call_torch(name, head, tail, node)
        if name in ops.FOLDED_FALSE:
            return constant(False)
        positional, named = self.arguments(node)
        everything = [*positional, *named.values()]
        if head == "math" or head == "cmath":
            return self.call_math(tail, positional, node)
        if name.startswith("numpy."):
            return self.call_numpy(name, everything, node)
        if name in ("copy.copy", "copy.deepcopy", "typing.cast") and positional:
            return positional[-1] if name == "typing.cast" else positional[0]
        if name == "functools.partial" and positional:
            self.pass_on(positional[0], node, positional[1:], named)
            return positional[0]
        if name in _EINOPS and positional:
            source = positional[0]
            if source.kinds & v.SEQUENCE:
                source = v.element(source)
            return v.tensor(source.why, source.dtype, source.device, needs=source.needs)
        if tail in ops.FOLDED_TRUE_NAMES:
            return constant(True)
        if tail in ops.FOLDED_FALSE_NAMES:
            return constant(False)
        if name in ops.TRACED_DRAWS:
            return Value(v.NUMBER, flags=v.RANDOM, why=f"{name}() draws anew in each call")
        if head in ("random", "time", "logging", "warnings"):
            return v.NUMBER_VALUE
        if name.partition(".")[0] in _OUTSIDE:
            return v.UNKNOWN_VALUE
        return self.call_project(name, node, positional, named)

    def call_project(
        self, name: str, node: ast.Call, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """A call of a function or class that the project may define."""
        tail = name.rpartition(".")[2]
        self.record_call("function", name, "", node, positional, named)
        if isinstance(node.func, ast.Name) and not node.args and not node.keywords:
            self.asks(name, node)
        if name in self.context.class_nodes or (tail[:1].isupper() and not tail.isupper()):
            return Value(v.INSTANCE, cls=name)
        return symbol(Need("return", name, ""), f"{short(name)}() returns a tensor")

    def asks(self, name: str, node: ast.Call) -> None:
        """A call without arguments: of a function that keeps its answer, perhaps."""
        keeps = Need("keeps", name, "")
        for kind, needs in (
            ("effect.asked-call", (keeps, Need("asked", name, self.context.module))),
            ("effect.cached-call", (keeps,)),
        ):
            about = Value(v.OTHER, needs=needs, why=f"{short(name)} is cached, and ends the graph")
            self.event(kind, span_of(node), f"{short(name)}()", about)

    def pass_on(
        self, function: Value, node: ast.Call, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """``function`` is called by somebody else with these arguments."""
        if function.kinds & v.CALLABLE and function.cls:
            for target in function.cls.split(","):
                owner, _, method = target.rpartition(".")
                if owner in self.context.class_nodes:
                    self.record_call("method", owner, method, node, positional, named)
                else:
                    self.record_call("function", target, "", node, positional, named)
            return symbol(
                Need("return", function.cls, ""), f"{short(function.cls)}() returns a tensor"
            )
        if function.kinds & v.INSTANCE and function.cls and not function.flags & v.MODULE:
            self.record_call("instance", function.cls, "forward", node, positional, named)
            return symbol(
                Need("return", f"{function.cls}.forward", ""),
                f"{short(function.cls)} returns a tensor",
            )
        return v.UNKNOWN_VALUE

    def call_builtin(self, name: str, node: ast.Call) -> Value | None:
        """Python's builtins, as far as tensors meet them."""
        if name == "super":
            return Value(v.INSTANCE, cls="super")
        positional, named = self.arguments(node)
        first = positional[0] if positional else v.UNKNOWN_VALUE
        handler = _BUILTINS.get(name)
        if handler is not None:
            return handler(self, node, first, positional, named)
        if name in ("len", "id", "hash", "ord", "hasattr", "callable", "issubclass", "isinstance"):
            if name == "isinstance":
                return Value(v.NUMBER, const=self.instance_known(first, node))
            return v.NUMBER_VALUE
        if name in ("str", "repr", "format", "ascii", "chr", "input"):
            self.formatted(first, node)
            return v.TEXT_VALUE
        if name in ("dict", "vars", "globals", "locals"):
            return Value(v.MAPPING, item=v.join_all([*named.values(), v.UNKNOWN_VALUE]))
        if name in ("type", "object", "property"):
            return v.OTHER_VALUE
        return v.UNKNOWN_VALUE

    def instance_known(self, value: Value, node: ast.Call) -> bool | None:
        """What ``isinstance`` gives where the kinds of the value leave no choice."""
        if len(node.args) != 2 or isinstance(node.args[1], ast.Tuple):
            return None
        name = self.qualified(node.args[1])
        if name != "torch.Tensor":
            return None
        if value.kinds == v.TENSOR and not value.needs:
            return True
        if not value.kinds & (v.TENSOR | v.UNKNOWN | v.OTHER):
            return False
        return None

    def b_number(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """int, float, complex, bool."""
        if node.args:
            self.needs_number(node.args[0])
        if first.is_tensor:
            builtin = node.func.id if isinstance(node.func, ast.Name) else "float"
            if (
                first.flags & v.SYMBOL
                and first.needs
                and first.kinds & v.UNKNOWN
                and first.dtype == ""
            ):
                self.event(
                    "sync.bool" if builtin == "bool" else "sync.number",
                    span_of(node),
                    f"{builtin}()",
                    first,
                )
            else:
                kind = "sync.bool" if builtin == "bool" else "sync.number"
                self.event(kind, span_of(node), f"{builtin}()", first, **_numbers(first))
            return v.READ_VALUE
        return Value(v.NUMBER, flags=first.flags & v.READ)

    def b_compare(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """max, min, sorted: compare their arguments."""
        name = node.func.id if isinstance(node.func, ast.Name) else "max"
        candidates = positional
        if len(positional) == 1:
            single = positional[0]
            candidates = list(single.items) if single.items is not None else [v.element(single)]
            if single.is_tensor and single.flags & v.SYMBOL:
                candidates = []
        found = [value for value in candidates if value.is_tensor]
        if found:
            sorts = name == "sorted" or "key" in named
            kind = "branch.sort" if sorts else "sync.builtin"
            self.event(kind, span_of(node), f"{name}()", found[0])
        if name == "sorted":
            return Value(v.SEQUENCE, item=v.join_all(candidates))
        return v.join_all([value._replace(flags=value.flags & ~v.SYMBOL) for value in candidates])

    def b_sum(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """sum adds its elements: no values are read."""
        item = v.element(first)
        return item if item.is_tensor else v.NUMBER_VALUE

    def b_first(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """abs, round: the value itself as far as rules care."""
        return first._replace(flags=first.flags & ~v.SYMBOL, const=None)

    def b_range(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """range over a tensor's value."""
        for argument in node.args:
            self.needs_number(argument)
        read = 0
        for value in positional:
            read |= value.flags & v.READ
            if value.is_tensor:
                self.event("branch.loop", span_of(node), source_of(node), value)
        return Value(v.SEQUENCE, item=Value(v.NUMBER, flags=read))

    def b_list(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """list, tuple, set, reversed, iter."""
        if not positional:
            return Value(v.SEQUENCE, items=())
        if first.items is not None:
            return Value(v.SEQUENCE, items=first.items)
        return Value(v.SEQUENCE, item=v.element(first))

    def b_enumerate(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        return Value(v.SEQUENCE, item=v.sequence([v.NUMBER_VALUE, v.element(first)]))

    def b_zip(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        return Value(v.SEQUENCE, item=v.sequence([v.element(value) for value in positional]))

    def b_next(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        return v.element(first)

    def b_any(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        """any, all: the truth of each element."""
        item = v.element(first)
        if item.is_tensor and not first.flags & v.SYMBOL:
            name = node.func.id if isinstance(node.func, ast.Name) else "any"
            self.event("sync.builtin", span_of(node), f"{name}()", item)
        return v.NUMBER_VALUE

    def b_getattr(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        if (
            len(node.args) >= 2
            and isinstance(node.args[1], ast.Constant)
            and isinstance(node.args[1].value, str)
        ):
            attribute = ast.copy_location(
                ast.Attribute(node.args[0], node.args[1].value, ast.Load()), node
            )
            value = self.ev_attribute(attribute)
            return v.join(value, positional[2]) if len(positional) > 2 else value
        return v.UNKNOWN_VALUE

    def b_map(
        self, node: ast.Call, first: Value, positional: list[Value], named: dict[str, Value]
    ) -> Value:
        if len(positional) < 2:
            return v.SEQUENCE_VALUE
        items = [v.element(value) for value in positional[1:]]
        if (
            first.kinds & v.CALLABLE
            and first.cls in ("builtins.int", "builtins.float")
            and items[0].is_tensor
        ):
            self.event("sync.number", span_of(node), f"{first.cls.rpartition('.')[2]}()", items[0])
            return Value(v.SEQUENCE, item=v.READ_VALUE)
        return Value(v.SEQUENCE, item=self.pass_on(first, node, items, {}))

    def call_math(self, name: str, positional: list[Value], node: ast.Call) -> Value:
        """math.sqrt(t) and the like convert their argument to a Python number."""
        read = 0
        for value in positional:
            read |= value.flags & v.READ
            if value.is_tensor:
                self.event("sync.math", span_of(node), f"math.{name}()", value, **_numbers(value))
                read = v.READ
        return Value(v.NUMBER, flags=read)

    # -- methods

    def call_method(self, function: ast.Attribute, node: ast.Call) -> Value:
        """``value.method(...)``."""
        method = function.attr
        holder = function.value
        if (
            isinstance(holder, ast.Call)
            and isinstance(holder.func, ast.Name)
            and holder.func.id == "super"
        ):
            positional, named = self.arguments(node)
            self.record_call("super", self.owner, method, node, positional, named)
            if method == "__init__" and self.owner:
                about = Value(v.TENSOR, needs=(Need("module", self.owner, ""),))
                self.event("effect.parameter-made", span_of(node), "super().__init__()", about)
            return symbol(
                Need("return", f"super:{self.owner}.{method}", ""),
                f"super().{method}() returns a tensor",
            )
        if isinstance(holder, ast.Name) and holder.id == self.self_name and self.self_name:
            return self.call_on_self(function, node)
        base = self.ev(holder)
        return self.method_on(base, method, function, node)

    def call_on_self(self, function: ast.Attribute, node: ast.Call) -> Value:
        """``self.method(...)`` and ``self.layer(...)``."""
        name = function.attr
        stored = self.env.get("self." + name) or self.context.class_attribute(self.owner, name)
        if stored is None or (
            stored.kinds == v.CALLABLE and stored.cls.startswith(self.owner + ".")
        ):
            positional, named = self.arguments(node)
            if name in ("register_buffer", "register_parameter", "add_module", "register_module"):
                self.register(name, node, positional, named)
                return v.NONE_VALUE
            self.record_call("method", self.owner, name, node, positional, named)
            if name.startswith(
                ("get_", "compute_", "_", "prepare_", "forward")
            ) or self.context.has_method(self.owner, name):
                return symbol(
                    Need("return", f"{self.owner}.{name}", ""), f"self.{name}() returns a tensor"
                )
            attribute = symbol(Need("attr", self.owner, name), f"`self.{name}` returns a tensor")
            return extend(attribute, "()")
        return self.call_value(stored, node)

    def register(
        self, how: str, node: ast.Call, positional: list[Value], named: dict[str, Value]
    ) -> None:
        """``self.register_buffer(name, tensor)`` makes an attribute."""
        if not node.args or not isinstance(node.args[0], ast.Constant):
            return
        name = str(node.args[0].value)
        value = (
            positional[1]
            if len(positional) > 1
            else named.get("tensor", named.get("param", v.NONE_VALUE))
        )
        if how in ("register_buffer", "register_parameter"):
            kind = "buffer" if how == "register_buffer" else "parameter"
            held = v.tensor(
                f"`self.{name}` is a {kind}", value.dtype, v.ON_DEVICE, value.ndim, v.BUFFER
            )
            value = held._replace(kinds=held.kinds | (value.kinds & v.NONE))
        self.context.set_attribute(self.owner, name, value)

    def method_on(self, base: Value, method: str, function: ast.Attribute, node: ast.Call) -> Value:
        """A method of a known value."""
        if method in ops.HOOK_METHODS:
            self.event("effect.module-hook", span_of(node), method)
        if base.flags & v.LOGGER:
            self.arguments(node)
            if method in _LOG_METHODS:
                self.event("effect.log", span_of(node), dotted(function) or f"logger.{method}")
            return v.NONE_VALUE
        if base.cls and self.context.sinks.has_call(f"{base.cls}.{method}"):
            self.event("call", span_of(node), f"{base.cls}.{method}")
        if base.is_tensor and (method in ops.TENSOR_METHODS or not base.flags & v.SYMBOL):
            return self.tensor_method(base, method, function, node)
        if base.is_tensor and base.flags & v.SYMBOL:
            positional, named = self.arguments(node)
            return extend(extend(base, "." + method), "()")
        if base.kinds & v.INSTANCE and base.flags & v.MODULE:
            positional, named = self.arguments(node)
            if method in ("forward", "__call__"):
                return self.call_value(base, node)
            return (
                base
                if method in ("to", "eval", "train", "cuda", "half", "float")
                else v.UNKNOWN_VALUE
            )
        if base.kinds & v.INSTANCE and base.cls:
            positional, named = self.arguments(node)
            self.record_call("method", base.cls, method, node, positional, named)
            return symbol(
                Need("return", f"{base.cls}.{method}", ""),
                f"{short(base.cls)}.{method}() returns a tensor",
            )
        if base.kinds & v.SEQUENCE:
            return self.sequence_method(base, method, function, node)
        if base.kinds & v.MAPPING:
            return self.mapping_method(base, method, function, node)
        positional, named = self.arguments(node)
        if base.kinds == v.TEXT or (base.kinds & v.TEXT and not base.kinds & v.UNKNOWN):
            if method == "format":
                for value in (*positional, *named.values()):
                    self.formatted(value, node)
            return (
                v.NUMBER_VALUE
                if method in ("startswith", "endswith", "find", "count")
                else v.TEXT_VALUE
            )
        if base.kinds & v.NUMPY:
            if method == "item" and base.kinds == v.NUMPY:
                self.numpy_item(function.value, node)
            return v.NUMPY_VALUE
        if base.kinds & v.CALLABLE and base.cls:
            name = f"{base.cls}.{method}"
            if base.cls.partition(".")[0] not in _OUTSIDE:
                self.record_call("function", name, "", node, positional, named)
                return symbol(Need("return", name, ""), f"{short(name)}() returns a tensor")
            return v.UNKNOWN_VALUE
        if base.kinds & v.UNKNOWN:
            if (
                method in ops.READING_METHODS and not node.args
            ) or method in ops.TENSOR_ONLY_METHODS:
                believed = v.tensor(f"only a tensor has .{method}()", device=v.ANYWHERE)
                return self.tensor_method(believed, method, function, node)
            if base.cls:
                self.record_call("method", base.cls, method, node, positional, named)
        return v.UNKNOWN_VALUE

    def sequence_method(
        self, base: Value, method: str, function: ast.Attribute, node: ast.Call
    ) -> Value:
        """Lists grow; what they hold is remembered under their name."""
        positional, named = self.arguments(node)
        if method in ("append", "add", "insert", "extend") and positional:
            added = positional[-1]
            if method == "extend":
                added = v.element(added)
            place = self.place(function.value)
            item = added if base.items == () else v.join(v.element(base), added)
            if base.items is None and base.item is None:
                item = added
            if place is not None:
                self.env[place] = Value(v.SEQUENCE, item=v.shallow(item, 2))
                if place.startswith("self.") and added.is_tensor:
                    self.event(
                        "effect.kept-output", span_of(node), source_of(function.value), added
                    )
            return v.NONE_VALUE
        if method in ("pop", "popleft"):
            return v.element(base)
        if method == "sort" and v.element(base).is_tensor and "key" not in named:
            self.event("branch.sort", span_of(node), ".sort()", v.element(base))
        if method in ("index", "count"):
            if v.element(base).is_tensor:
                self.event("branch.membership", span_of(node), f".{method}()", v.element(base))
            return v.NUMBER_VALUE
        if method in ("copy", "reverse"):
            return base
        return v.UNKNOWN_VALUE

    def mapping_method(
        self, base: Value, method: str, function: ast.Attribute, node: ast.Call
    ) -> Value:
        """Dictionaries."""
        positional, _ = self.arguments(node)
        item = v.element(base)
        if method in ("get", "pop", "setdefault"):
            default = positional[1] if len(positional) > 1 else v.NONE_VALUE
            return v.join(item, default)
        if method == "values":
            return Value(v.SEQUENCE, item=item)
        if method == "items":
            return Value(v.SEQUENCE, item=v.sequence([v.UNKNOWN_VALUE, item]))
        if method == "keys":
            return Value(v.SEQUENCE, item=v.TEXT_VALUE)
        if method == "copy":
            return base
        return v.UNKNOWN_VALUE

    # -- values called

    def call_value(self, value: Value, node: ast.Call) -> Value:
        """Something held in a variable is called."""
        positional, named = self.arguments(node)
        everything = [*positional, *named.values()]
        if value.flags & v.MODULE:
            return self.call_layer(value, node, everything)
        if value.kinds & v.CALLABLE and value.cls:
            if value.cls.startswith("torch.") and "," not in value.cls:
                return v.tensor(f"{value.cls} returns a tensor", device=merge_device(everything))
            if value.cls.partition(".")[0] in _OUTSIDE:
                return v.UNKNOWN_VALUE
            return self.pass_on(value, node, positional, named)
        if value.kinds & v.INSTANCE and value.cls:
            return self.pass_on(value, node, positional, named)
        if value.flags & v.SYMBOL and value.needs:
            need = value.needs[0]
            if need.kind == "attr":
                self.record_call("attribute", need.owner, need.name, node, positional, named)
            return extend(value, "()")
        return v.UNKNOWN_VALUE

    def call_layer(self, layer: Value, node: ast.Call, values: list[Value]) -> Value:
        """A layer of torch.nn is applied."""
        name = layer.cls
        why = f"returned by a {short(name)} layer" if name else "returned by a layer"
        if name in ops.RECURRENT:
            self.event("effect.rnn", span_of(node), name)
        device = v.ON_DEVICE
        result = v.tensor(why, "float", device)
        count = ops.TUPLE_LAYERS.get(name)
        if count is not None:
            return v.sequence([result] * count)
        return result


def _root(node: ast.Attribute) -> str | None:
    inner: ast.expr = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return inner.id if isinstance(inner, ast.Name) else None


def _numbers(value: Value) -> dict[str, str]:
    return {"numbers": "0-d"} if value.ndim == 0 else {}


_BUILTINS: dict[str, Callable[[Any, ast.Call, Value, list[Value], dict[str, Value]], Value]] = {
    **dict.fromkeys(("int", "float", "complex", "bool"), Calls.b_number),
    **dict.fromkeys(("max", "min", "sorted"), Calls.b_compare),
    "sum": Calls.b_sum,
    **dict.fromkeys(("abs", "round"), Calls.b_first),
    "range": Calls.b_range,
    **dict.fromkeys(("list", "tuple", "set", "frozenset", "reversed", "iter"), Calls.b_list),
    "enumerate": Calls.b_enumerate,
    "zip": Calls.b_zip,
    "next": Calls.b_next,
    **dict.fromkeys(("any", "all"), Calls.b_any),
    "getattr": Calls.b_getattr,
    **dict.fromkeys(("map", "filter"), Calls.b_map),
}
