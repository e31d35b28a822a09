"""Expressions to abstract values, with the events that happen on the way."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from pygraph_lint.analysis import ops
from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import constant, extend, symbol
from pygraph_lint.analysis.events import Need
from pygraph_lint.analysis.frame import BUILTINS
from pygraph_lint.analysis.nodes import dotted, short, span_of
from pygraph_lint.analysis.operators import Operators
from pygraph_lint.analysis.values import Value


class Expressions(Operators):
    """Evaluates names and attributes, and hands every other expression to who knows it."""

    def ev(self, node: ast.expr | None) -> Value:
        """The value of an expression."""
        if node is None:
            return v.NONE_VALUE
        method = _DISPATCH.get(type(node))
        if method is None:
            return v.UNKNOWN_VALUE
        return method(self, node)

    def ev_constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def ev_name(self, node: ast.Name) -> Value:
        value = self.env.get(node.id)
        if value is not None:
            if node.id in self.origins:
                self.loads.setdefault(self.origins[node.id], set()).add(
                    (node.lineno, node.col_offset)
                )
            return value
        if node.id in self.locals:
            return v.UNKNOWN_VALUE
        known = self.context.module_values.get(node.id)
        if known is not None:
            if known.kinds == v.CALLABLE:
                self.mention(known.cls, node)
            elif known.kinds & (v.MAPPING | v.INSTANCE):
                self.mention(f"{self.context.module}.{node.id}", node)
            return known
        target = self.context.bindings.get(node.id)
        if target is not None:
            self.mention(target, node)
            return Value(v.CALLABLE, cls=target)
        if node.id in BUILTINS:
            return Value(v.CALLABLE, cls="builtins." + node.id)
        return v.UNKNOWN_VALUE

    def ev_attribute(self, node: ast.Attribute) -> Value:
        qualified = self.qualified(node)
        if qualified is not None:
            return self.qualified_value(qualified, node)
        if isinstance(node.value, ast.Name) and node.value.id == self.self_name and self.self_name:
            return self.self_attribute(node.attr, node)
        base = self.ev(node.value)
        return self.attribute_of(base, node)

    def qualified_value(self, name: str, node: ast.Attribute) -> Value:
        """A dotted name that leads out of the function: ``torch.float32``, ``logging.info``."""
        head, _, tail = name.rpartition(".")
        if head == "torch":
            kind = ops.DTYPES.get(tail)
            if kind is not None:
                return Value(v.DTYPE, dtype=kind)
            if tail in ("pi", "inf", "nan", "e"):
                return v.NUMBER_VALUE
        elif head == "math":
            if tail in ("pi", "inf", "nan", "e", "tau"):
                return v.NUMBER_VALUE
        elif head == "numpy" and tail in ("pi", "inf", "nan", "e", "newaxis"):
            return v.NUMBER_VALUE
        root = self.context.module_values.get(dotted(node).split(".")[0]) if dotted(node) else None  # type: ignore[union-attr]
        if root is not None and root.kinds != v.CALLABLE:
            return self.attribute_of(root, node)
        self.mention(name, node)
        return Value(v.CALLABLE, cls=name)

    def self_attribute(self, name: str, node: ast.Attribute) -> Value:
        """``self.name``: what this function stored there, else what the class is known to hold."""
        value = self.env.get("self." + name)
        if value is not None:
            return value
        value = self.context.class_attribute(self.owner, name)
        if value is None:
            if name == "training":
                return v.NUMBER_VALUE
            if name == "device":
                return v.DEVICE_VALUE
            if name == "dtype":
                return v.DTYPE_VALUE
            if name == "config":
                return v.OTHER_VALUE
            if self.context.is_kept(self.owner, name):
                self.event("effect.cached-property", span_of(node), f"self.{name}")
            if self.context.has_method(self.owner, name):
                self.record_call("method", self.owner, name, node)
                return Value(v.CALLABLE | v.UNKNOWN, cls=f"{self.owner}.{name}")
            if self.context.is_open(self.owner):
                return symbol(Need("attr", self.owner, name), f"`self.{name}` holds a tensor")
            return v.UNKNOWN_VALUE
        if value.flags & v.PLAIN and value.is_tensor:
            self.event("host.attribute", span_of(node), f"self.{name}", value)
        return value

    def attribute_of(self, base: Value, node: ast.Attribute) -> Value:
        """``base.attr`` for a value."""
        name = node.attr
        kinds = base.kinds
        if kinds & v.TENSOR:
            if name == "shape":
                return v.SHAPE_VALUE
            if name == "device":
                return Value(v.DEVICE, flags=v.DEVICE_CPU if base.device == v.ON_HOST else 0)
            if name == "dtype":
                return Value(v.DTYPE, dtype=base.dtype)
            if name in ops.TENSOR_ATTRIBUTES:
                return base._replace(flags=base.flags & ~v.FRESH, ndim=-1)
            if name in ops.NUMBER_ATTRIBUTES:
                return v.NUMBER_VALUE
            if base.flags & v.SYMBOL:
                return extend(base, "." + name)
            if base.cls or base.items is not None:
                return v.UNKNOWN_VALUE
            return v.UNKNOWN_VALUE
        if kinds & v.INSTANCE:
            if base.flags & v.MODULE:
                if name in ("weight", "bias", "running_mean", "running_var"):
                    return v.tensor(f"`.{name}` of a layer", "float", v.ON_DEVICE, flags=v.BUFFER)
                return v.UNKNOWN_VALUE
            known = self.context.class_attribute(base.cls, name)
            if known is not None:
                return known
            if base.cls:
                if name in ("config", "device", "dtype"):
                    return {"config": v.OTHER_VALUE, "device": v.DEVICE_VALUE}.get(
                        name, v.DTYPE_VALUE
                    )
                return symbol(
                    Need("attr", base.cls, name), f"`.{name}` of {short(base.cls)} holds a tensor"
                )
        if name == "device":
            return v.DEVICE_VALUE
        if name == "dtype":
            return v.DTYPE_VALUE
        if name == "shape":
            return v.SHAPE_VALUE
        if kinds == v.OTHER:
            return v.OTHER_VALUE
        if base.flags & v.RESULT and base.items:
            fields = {"values": 0, "indices": 1, "P": 0, "L": 1, "U": 2}
            index = fields.get(name)
            if index is not None and index < len(base.items):
                return base.items[index]
        if kinds & v.CALLABLE and base.cls:
            return Value(v.CALLABLE | v.UNKNOWN, cls=f"{base.cls}.{name}")
        return v.UNKNOWN_VALUE


def _later(name: str) -> Callable[[Any, Any], Value]:
    def evaluate(self: Any, node: ast.expr) -> Value:
        value: Value = getattr(self, name)(node)
        return value

    return evaluate


_DISPATCH: dict[type[ast.expr], Callable[[Any, Any], Value]] = {
    ast.Constant: Expressions.ev_constant,
    ast.Name: Expressions.ev_name,
    ast.Attribute: Expressions.ev_attribute,
    ast.BinOp: Expressions.ev_binop,
    ast.UnaryOp: Expressions.ev_unary,
    ast.Compare: Expressions.ev_compare,
    ast.BoolOp: Expressions.ev_boolop,
    ast.IfExp: Expressions.ev_ifexp,
    ast.Call: _later("ev_call"),
    ast.Subscript: _later("ev_subscript"),
    ast.Tuple: _later("ev_sequence"),
    ast.List: _later("ev_sequence"),
    ast.Set: _later("ev_sequence"),
    ast.Dict: _later("ev_dict"),
    ast.ListComp: _later("ev_comprehension"),
    ast.SetComp: _later("ev_comprehension"),
    ast.GeneratorExp: _later("ev_comprehension"),
    ast.DictComp: _later("ev_dict_comprehension"),
    ast.JoinedStr: _later("ev_joined"),
    ast.Lambda: _later("ev_lambda"),
    ast.Starred: _later("ev_starred"),
    ast.NamedExpr: _later("ev_named"),
    ast.Await: _later("ev_await"),
    ast.Yield: _later("ev_yield"),
    ast.YieldFrom: _later("ev_yield"),
    ast.Slice: _later("ev_slice"),
}
