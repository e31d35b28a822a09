"""Subscripts, containers, comprehensions, formatted strings, lambdas."""

from __future__ import annotations

import ast

from pygraph_lint.analysis import values as v
from pygraph_lint.analysis.algebra import extend
from pygraph_lint.analysis.calls import Calls
from pygraph_lint.analysis.nodes import source_of, span_of
from pygraph_lint.analysis.values import Value


class Structures(Calls):
    """Evaluates what holds or selects other values."""

    # -- subscripts

    def ev_subscript(self, node: ast.Subscript) -> Value:
        base = self.ev(node.value)
        doubtful = bool(base.needs) or base.kinds == v.UNKNOWN
        if doubtful and isinstance(node.slice, ast.Tuple) and self.by_mask_and_slice(node.slice):
            why = "it is indexed with a boolean tensor and a slice"
            return self.index_tensor(v.tensor(why, device=v.ON_DEVICE), node)
        if base.is_tensor and not (base.kinds & (v.SEQUENCE | v.MAPPING)):
            return self.index_tensor(base, node)
        index = self.ev(node.slice)
        if base.kinds & v.TENSOR and index.is_tensor:
            return self.index_tensor(
                base._replace(kinds=base.kinds & ~(v.SEQUENCE | v.MAPPING)), node
            )
        return self.select(base, index, node)

    def by_mask_and_slice(self, node: ast.Tuple) -> bool:
        """Whether an index is made of boolean tensors and slices: only tensors take one."""
        slices = [isinstance(part, ast.Slice) for part in node.elts]
        if not any(slices) or all(slices):
            return False
        parts = [self.ev(part) for part in node.elts if not isinstance(part, ast.Slice)]
        return all(part.is_tensor and part.dtype == "bool" for part in parts)

    def select(self, base: Value, index: Value, node: ast.Subscript) -> Value:
        """An element of a container that is no tensor."""
        if isinstance(node.slice, ast.Slice):
            if base.items is not None:
                return Value(v.SEQUENCE, item=v.element(base)) if base.items else base
            return base
        if base.items is not None and isinstance(index.const, int):
            position = int(index.const)
            if -len(base.items) <= position < len(base.items):
                return base.items[position]
        if base.kinds & (v.SEQUENCE | v.MAPPING):
            if (
                index.is_tensor
                and base.kinds == v.SEQUENCE
                and not index.needs
                and not index.kinds & v.UNKNOWN
            ):
                self.event("sync.number", span_of(node), "a list indexed by a tensor", index)
            return v.element(base)
        if base.kinds & v.CALLABLE and base.cls:  # a table of functions
            return Value(v.CALLABLE | v.UNKNOWN, cls=base.cls)
        if base.kinds & v.NUMPY:
            return v.NUMPY_VALUE
        if base.kinds == v.TEXT:
            return v.TEXT_VALUE
        return v.UNKNOWN_VALUE

    def index_tensor(self, base: Value, node: ast.Subscript) -> Value:
        """``t[...]`` read."""
        mask, lists, gathered, number = self.index_parts(node.slice, base)
        if (
            base.flags & v.SYMBOL
            and base.needs
            and isinstance(node.slice, (ast.Constant, ast.UnaryOp))
        ):
            const = number.const if number is not None else None
            if isinstance(const, (int, str)) and not isinstance(const, bool):
                return extend(base, str(const))
        flags = base.flags & (v.RANDOM | v.FINITE | v.DYNAMIC)
        if mask is not None:
            combined = base if base.needs or not mask.needs else base._replace(needs=mask.needs)
            if mask.needs and base.needs and mask.needs != base.needs:
                combined = base._replace(needs=(*base.needs, *mask.needs))
            self.event(
                "shape.mask-read", span_of(node), source_of(node, 40), combined, boolean="yes"
            )
            flags |= v.DYNAMIC
        if lists is not None:
            self.event("host.index-list", span_of(node), source_of(node, 40), base)
        elif gathered is not None and gathered.device == v.ON_HOST and base.device == v.ON_DEVICE:
            self.meet(node.slice, gathered, node.value, base)
            if not gathered.flags & v.PLAIN and not self.made_here(node.slice):
                self.event("host.moved", span_of(node), source_of(node, 40), base)
        elif gathered is not None and gathered.ndim == 0 and gathered.dtype != "bool":
            self.event("shape.from-value", span_of(node), source_of(node, 40), gathered)
        rank = -1
        if (
            not isinstance(node.slice, (ast.Tuple, ast.Slice))
            and number is not None
            and base.ndim > 0
        ):
            rank = base.ndim - 1
        if isinstance(node.slice, ast.Slice):
            rank = base.ndim
        return v.tensor(base.why, base.dtype, base.device, rank, flags, base.needs)

    def index_parts(
        self, index: ast.expr, base: Value
    ) -> tuple[Value | None, ast.expr | None, Value | None, Value | None]:
        """A boolean mask, a literal list, an index tensor, a plain number: what the index is made
        of.
        """
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        mask = gathered = number = None
        lists: ast.expr | None = None
        for part in parts:
            value = self.ev(part)
            if value.is_tensor:
                if value.dtype == "bool" and value.ndim != 0:
                    mask = value
                elif gathered is None or gathered.needs or value.device == v.ON_HOST:
                    gathered = value
            elif value.kinds & v.SEQUENCE and v.element(value).is_tensor and not _is_list(part):
                mask = v.element(value) if v.element(value).is_mask else mask
                gathered = gathered or v.element(value)
            elif value.kinds & v.SEQUENCE and isinstance(part, (ast.List, ast.ListComp)):
                if not any(isinstance(element, ast.Slice) for element in getattr(part, "elts", ())):
                    lists = part
            elif value.kinds & v.NUMBER:
                number = value
        return mask, lists, gathered, number

    def made_here(self, index: ast.expr) -> bool:
        """Whether an index is a tensor whose making was reported already."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        return any(isinstance(part, ast.Name) and part.id in self.origins for part in parts)

    def ev_slice(self, node: ast.Slice) -> Value:
        for bound in (node.lower, node.upper, node.step):
            if bound is not None:
                value = self.ev(bound)
                if value.is_tensor:
                    self.event("shape.from-value", span_of(bound), source_of(bound, 40), value)
        return v.OTHER_VALUE

    def store_subscript(self, target: ast.Subscript, value: Value) -> None:
        """``base[index] = value``."""
        base = self.ev(target.value)
        if base.is_tensor and not (
            base.kinds & (v.SEQUENCE | v.MAPPING) and base.kinds & v.UNKNOWN
        ):
            mask, lists, gathered, _ = self.index_parts(target.slice, base)
            about = base
            if mask is not None and _is_number(value):
                return  # a fill: neither waits nor breaks
            if mask is not None:
                if not about.needs:
                    about = about._replace(needs=mask.needs, why=mask.why or about.why)
                kind = "0-d" if value.ndim == 0 else "tensor"
                self.event(
                    "shape.mask-write",
                    span_of(target),
                    source_of(target, 40),
                    about,
                    boolean="yes",
                    value=kind,
                )
            elif gathered is not None and _is_number(value) and base.device != v.ON_HOST:
                about = about._replace(needs=about.needs + gathered.needs)
                self.event("sync.index-write", span_of(target), source_of(target, 40), about)
            elif lists is not None and base.device != v.ON_HOST:
                self.event("host.index-list", span_of(target), source_of(target, 40), base)
            return
        self.ev(target.slice)
        place = self.place(target.value)
        if place is not None and base.kinds & (v.MAPPING | v.SEQUENCE):
            kinds = base.kinds
            item = value if base.items == () else v.join(v.element(base), value)
            if base.item is v.UNKNOWN_VALUE or (base.item is None and base.items is None):
                item = value
            self.env[place] = Value(kinds, item=v.shallow(item, 2))
            if place.startswith("self.") and value.is_tensor:
                self.event(
                    "effect.kept-output", span_of(target), source_of(target.value, 40), value
                )

    # -- containers

    def ev_sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        values = [self.ev(element) for element in node.elts]
        if any(isinstance(element, ast.Starred) for element in node.elts):
            return Value(
                v.SEQUENCE,
                item=v.join_all(
                    [
                        v.element(x) if isinstance(e, ast.Starred) else x
                        for e, x in zip(node.elts, values)
                    ]
                ),
            )
        return v.sequence(values)

    def ev_dict(self, node: ast.Dict) -> Value:
        values = []
        for key, held in zip(node.keys, node.values):
            if key is not None:
                self.ev(key)
                values.append(self.ev(held))
            else:
                values.append(v.element(self.ev(held)))
        return Value(v.MAPPING, item=v.shallow(v.join_all(values), 2))

    def ev_comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        saved = self.enter(node.generators)
        item = self.ev(node.elt)
        self.restore(saved)
        return Value(v.SEQUENCE, item=v.shallow(item, 2))

    def ev_dict_comprehension(self, node: ast.DictComp) -> Value:
        saved = self.enter(node.generators)
        self.ev(node.key)
        item = self.ev(node.value)
        self.restore(saved)
        return Value(v.MAPPING, item=v.shallow(item, 2))

    def enter(self, generators: list[ast.comprehension]) -> list[tuple[str, Value | None]]:
        """Bind the targets of a comprehension; returns what to restore."""
        saved: list[tuple[str, Value | None]] = []
        for generator in generators:
            iterated = self.ev(generator.iter)
            saved += [(name, self.env.get(name)) for name in _names(generator.target)]
            self.assign(generator.target, v.element(iterated), None)
            for condition in generator.ifs:
                self.truth(condition, "branch.if")
                saved += self.narrow(condition, True)
        return saved

    def assign(self, target: ast.expr, value: Value, source: ast.expr | None) -> None:
        """Provided by the class that handles statements."""
        raise AssertionError("mixed in by Interpreter")

    # -- the rest

    def ev_joined(self, node: ast.JoinedStr) -> Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.ev(part.value)
                self.formatted(value, node)
        return v.TEXT_VALUE

    def ev_lambda(self, node: ast.Lambda) -> Value:
        saved: list[tuple[str, Value | None]] = []
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            saved.append((argument.arg, self.env.get(argument.arg)))
            self.env[argument.arg] = v.UNKNOWN_VALUE
        self.ev(node.body)
        self.restore(saved)
        return Value(v.CALLABLE)

    def ev_starred(self, node: ast.Starred) -> Value:
        return self.ev(node.value)

    def ev_named(self, node: ast.NamedExpr) -> Value:
        value = self.ev(node.value)
        self.assign(node.target, value, node.value)
        return value

    def ev_await(self, node: ast.Await) -> Value:
        return self.ev(node.value)

    def ev_yield(self, node: ast.Yield | ast.YieldFrom) -> Value:
        self.ev(node.value)
        return v.UNKNOWN_VALUE


def _is_list(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.ListComp))


def _is_number(value: Value) -> bool:
    return not value.is_tensor and bool(value.kinds & (v.NUMBER | v.OTHER))


def _names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for element in target.elts for name in _names(element)]
    if isinstance(target, ast.Starred):
        return _names(target.value)
    return []
