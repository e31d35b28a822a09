"""Where the values of a training loop live: on the device, on the host, or as the caller gave them.

Loops call what the analysis of a single file cannot know: a model that is a parameter, a
criterion, a data loader. What a loop does with a value still shows what it is: ``loss.backward()``
is called on a tensor of the device, whoever made it, and what goes into that loss was made by the
model.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import reduce
from typing import Any

from pygraph_lint.analysis.control_flow.statement_graph import BindingKind, Definition
from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.events import any_of
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.loops.call_results import CallResults, returned
from pygraph_lint.analysis.loops.calls import (
    BATCH,
    COMPILED,
    DEVICE,
    GIVEN,
    GRADIENT,
    HOST,
    INDICES,
    LOADER,
    LOSS,
    MODULE,
    MOVED,
    MOVED_LATER,
    OF_OBJECT,
    PREPARED,
    WRAPPERS,
    is_batch,
    on_device,
    over_batches,
    shown,
)
from pygraph_lint.analysis.loops.evidence import LoopEvidence
from pygraph_lint.analysis.loops.joins import (
    appended,
    either,
    entry,
    is_count,
    is_of_other_type,
    is_open,
    is_prepared,
    joined,
    part,
    path_to,
    stored,
)
from pygraph_lint.analysis.loops.parameters import Parameters
from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import dotted, last_part, last_stores

_MAX_DEPTH = 60


class LoopValues:
    """The values of one file's expressions, worked out on demand from reaching definitions."""

    def __init__(self, queries: FileQueries, evidence: LoopEvidence | None = None) -> None:
        self.queries = queries
        self.module = queries.view.module
        self._known: dict[ast.AST, Value] = {}
        self._of_definition: dict[Definition, Value] = {}
        self._depth = 0
        self.evidence = evidence or LoopEvidence(queries)
        self.parameters = Parameters(queries, self.evidence)
        self._results = CallResults(queries, self.of, self.element)

    def close(self) -> None:
        """Let go of the tree, which would stay until garbage is collected. Nothing is asked any
        more.
        """
        del self._results

    # -- expressions

    def of(self, node: ast.expr) -> Value:
        """The value of an expression."""
        known = self._known.get(node)
        if known is not None:
            return known
        if self._depth > _MAX_DEPTH:
            return v.UNKNOWN_VALUE
        self._known[node] = v.UNKNOWN_VALUE
        self._depth += 1
        handler = _HANDLERS.get(type(node))
        found = handler(self, node) if handler is not None else v.UNKNOWN_VALUE
        self._depth -= 1
        self._known[node] = found
        return found

    def _constant(self, node: ast.Constant) -> Value:
        if node.value is None:
            return v.NONE_VALUE
        return v.TEXT_VALUE if isinstance(node.value, (str, bytes)) else v.NUMBER_VALUE

    def _name(self, node: ast.Name) -> Value:
        found = [self.defined(each) for each in self.queries.definitions.reaching(node)]
        value = joined(found)
        if on_device(value) and is_of_other_type(self.queries, node):
            return v.OTHER_VALUE
        if value.kinds == v.UNKNOWN and self.evidence.used_as_module(node):
            return MODULE
        return value

    def defined(self, definition: Definition) -> Value:
        """What a definition gives its name."""
        known = self._of_definition.get(definition)
        if known is None:
            self._of_definition[definition] = v.UNKNOWN_VALUE
            known = self._defined(definition)
            if definition in self.evidence.loss_places and is_open(known):
                known = LOSS
            unexplained = known.kinds & v.UNKNOWN and not is_batch(known)
            if unexplained and known != PREPARED:
                known = self._from_uses(definition, known)
            self._of_definition[definition] = known
        return known

    def _from_uses(self, definition: Definition, known: Value) -> Value:
        """What a definition of which too little is known gives, from the way it is used."""
        if self.evidence.is_computed(definition):
            return Value(v.MAPPING, item=DEVICE) if self.evidence.is_mapping(definition) else DEVICE
        if definition in self.evidence.moved_later and not known.flags & v.MODULE:
            is_given = definition.kind is BindingKind.PARAMETER
            return MOVED_LATER._replace(why=HOST.why) if is_given else MOVED_LATER
        return shown(known) if self.evidence.reads_item(definition) else known

    def _defined(self, definition: Definition) -> Value:
        kind, node = definition.kind, definition.node
        if definition.value is not None:
            return self.of(definition.value)
        if kind is BindingKind.PARAMETER:
            return self.parameters.value(node)  # type: ignore[arg-type]
        if kind is BindingKind.UNPACKED:
            return self._unpacked(node)
        if kind in (BindingKind.LOOP, BindingKind.COMPREHENSION):
            return self._iterated(node)
        if kind is BindingKind.AUGMENTED:
            return self._augmented(node)
        if kind is BindingKind.DEFINED:
            return self._definition_of(node)
        return v.UNKNOWN_VALUE

    def _definition_of(self, node: ast.AST) -> Value:
        if isinstance(node, ast.ClassDef):
            return Value(v.CALLABLE, cls=f"{self.module}.{node.name}")
        decorators = getattr(node, "decorator_list", [])
        compiled = any(
            self.queries.qualified(each.func if isinstance(each, ast.Call) else each)
            in ops.COMPILERS
            for each in decorators
        )
        return COMPILED if compiled else Value(v.CALLABLE, cls=self.parameters.name_of(node) or "")

    def is_only_annotated(self, node: ast.expr) -> bool:
        """Whether an annotation says that this is a tensor, and nothing says where it is."""
        if not isinstance(node, ast.Name) or not self.of(node).is_tensor or self.of(node).needs:
            return False
        found = [each.node for each in self.queries.definitions.reaching(node)]
        given = [each for each in found if isinstance(each, ast.arg) and each.annotation]
        scope = self.queries.definitions.scope
        return any(self.parameters.given_by_hook(scope(each), each.arg) is None for each in given)

    def function_of(self, call: ast.Call) -> ast.AST | None:
        """The function of the file that a call by its name, or on ``self``, calls."""
        name = dotted(call.func) or ""
        first, _, method = name.partition(".")
        if first != "self":
            return self.evidence.functions.get((None, name))
        owner = self.queries.owner(call)
        for _, value in self.evidence.assigned_to_self.get((owner, method), ()):
            written = dotted(value) or ""
            if written.startswith("self.") and method != written.partition(".")[2]:
                method = written.partition(".")[2]
                break
        return self.evidence.functions.get((owner, method)) if owner is not None else None

    # -- definitions that are no plain assignment

    def _unpacked(self, target: ast.AST) -> Value:
        statement = self.queries.statement(target)
        value = getattr(statement, "value", None)
        for root in getattr(statement, "targets", []):
            path = path_to(root, target)
            if path is not None and value is not None:
                if is_prepared(value):
                    return PREPARED
                counts = is_count(self.queries, target, value)
                return v.UNKNOWN_VALUE if counts else part(self.of(value), path)
        return v.UNKNOWN_VALUE

    def _iterated(self, target: ast.AST) -> Value:
        for each in self.queries.path(target):
            if isinstance(each, (ast.For, ast.AsyncFor, ast.comprehension)):
                path = path_to(each.target, target)
                return part(self.element(each.iter, each), path or ())
        return v.UNKNOWN_VALUE

    def element(self, iterated: ast.expr, loop: ast.AST) -> Value:
        """What one turn of a loop over an expression gets."""
        wrapped = self._element_of_call(iterated, loop) if isinstance(iterated, ast.Call) else None
        if wrapped is not None:
            return wrapped
        if self.evidence.gives_to_module(loop):
            return GIVEN
        value = self.of(iterated)
        if value == PREPARED:
            return v.tensor("the data loader puts batches on the device", device=v.ON_DEVICE)
        if value.cls == LOADER.cls or is_batch(value):
            return BATCH
        over = self.evidence.is_step_loop(loop) or over_batches(iterated)
        if value.kinds & v.UNKNOWN and not on_device(value) and over:
            return BATCH
        given = value.flags & v.SYMBOL or (value.needs and value.needs[0].kind == "any")
        if value.needs and given and self.evidence.is_step_loop(loop):
            return BATCH
        return v.UNKNOWN_VALUE if value.kinds == v.MAPPING else v.element(value)  # or its keys

    def _element_of_call(self, call: ast.Call, loop: ast.AST) -> Value | None:
        """The same of ``enumerate(x)``, ``zip(x, y)``, ``x.items()``; None of other calls."""
        last = last_part(call.func)
        if last == "enumerate" and call.args:
            inner = self.element(call.args[0], loop)
            return Value(v.SEQUENCE, items=(v.NUMBER_VALUE, inner))
        if last == "zip":
            return Value(v.SEQUENCE, items=tuple(self.element(each, loop) for each in call.args))
        if last == "range":
            return v.NUMBER_VALUE
        if last in WRAPPERS and call.args:
            return self.element(call.args[0], loop)
        if last in ("items", "values") and isinstance(call.func, ast.Attribute):
            held = self.held(self.of(call.func.value))
            return held if last == "values" else Value(v.SEQUENCE, items=(v.TEXT_VALUE, held))
        return None

    def held(self, value: Value) -> Value:
        """What a mapping holds; what a model gives is on the device with all it holds."""
        if is_batch(value) or (on_device(value) and not value.needs):
            return value
        if value.needs and value.flags & v.SYMBOL:
            return part(value, (0,))
        return value.item or v.UNKNOWN_VALUE

    def _augmented(self, target: ast.AST) -> Value:
        statement = self.queries.statement(target)
        if not isinstance(statement, ast.AugAssign) or not isinstance(target, ast.Name):
            return v.UNKNOWN_VALUE
        added = self.of(statement.value)
        if on_device(added):
            return added
        before = self.queries.definitions.reaching_at(target.id, statement)
        return joined([self.defined(each) for each in before if each.node is not target])

    # -- by kind of node

    def _attribute(self, node: ast.Attribute) -> Value:
        if ast.unparse(node) in self.evidence.loss_places:
            return LOSS
        qualified = self.queries.qualified(node)
        if qualified is not None and not qualified.startswith(self.module + "."):
            return Value(v.CALLABLE, cls=qualified)
        if dotted(node.value) == "self":
            return self._of_self(node)
        if node.attr == "grad":
            return GRADIENT
        base = self.of(node.value)
        if on_device(base):
            return self._attribute_of_tensor(base, node)
        if is_batch(base):
            return v.OTHER_VALUE if node.attr.endswith("_size") else BATCH
        if base.flags & v.MODULE and node.attr in ("module", "model", "weight", "bias"):
            return MODULE if node.attr in ("module", "model") else DEVICE
        return v.UNKNOWN_VALUE

    def _attribute_of_tensor(self, base: Value, node: ast.Attribute) -> Value:
        """An attribute of a tensor of the device, or of an object that holds such tensors."""
        if node.attr in _DESCRIBING or node.attr.endswith("_size"):
            return v.OTHER_VALUE
        if node.attr in ops.TENSOR_ATTRIBUTES or node.attr in _PARTS:
            return base
        if base.needs or self.is_only_annotated(node.value):
            return v.UNKNOWN_VALUE  # what its author has set there
        moved = base.why in (MOVED.why, GIVEN.why)  # of an object: a number, too
        return base._replace(cls=OF_OBJECT) if moved else base

    def _of_self(self, node: ast.Attribute) -> Value:
        if self.evidence.used_as_module(node):
            return MODULE
        owner = self.queries.owner(node)
        if (owner, node.attr) in self.evidence.buffers:
            return DEVICE
        if (owner, node.attr) in self.evidence.functions and isinstance(owner, ast.ClassDef):
            name, read = f"{self.module}.{owner.name}.{node.attr}", f"`{node.attr}` is a tensor"
            is_read = self.evidence.is_property(owner, node.attr)
            return returned(name, read) if is_read else Value(v.CALLABLE, cls=name)
        found = []
        for target, value in self.evidence.assigned_to_self.get((owner, node.attr), ()):
            if target is not node and not self._overwritten(target, node):
                found.append(self.of(value))
        return joined(found) if found else v.UNKNOWN_VALUE

    def _overwritten(self, target: ast.expr, node: ast.Attribute) -> bool:
        """Whether another function, which stores to this attribute, always stores to it again."""
        stores, reads = self.queries.scope(target), self.queries.scope(node)
        return stores is not reads and target.lineno < last_stores(stores).get(node.attr, 0)

    def _subscript(self, node: ast.Subscript) -> Value:
        if ast.unparse(node) in self.evidence.loss_places:
            return LOSS
        base = self.of(node.value)
        if is_batch(base):
            return BATCH
        if base.kinds & v.TENSOR and not base.needs:
            return base._replace(cls="")
        index = self.of(node.slice)
        if base.kinds & v.UNKNOWN and on_device(index) and not index.needs:
            return DEVICE  # nothing of the host takes such an index
        if on_device(base) and base.needs and not base.flags & v.SYMBOL and index.kinds != v.TEXT:
            return base
        if base.needs and base.flags & v.SYMBOL:
            return entry(base, node.slice)
        if base.items is not None and isinstance(node.slice, ast.Constant):
            place = node.slice.value
            if isinstance(place, int) and -len(base.items) <= place < len(base.items):
                return base.items[place]
        if base.kinds & (v.SEQUENCE | v.MAPPING):
            return base if isinstance(node.slice, ast.Slice) else v.element(base)
        rows = base.kinds == v.NUMPY and isinstance(node.slice, ast.Slice)
        return base if rows else v.UNKNOWN_VALUE

    def _binary(self, node: ast.BinOp) -> Value:
        if self.of(node.left).kinds == v.TEXT:  # joined, repeated or filled in
            return v.TEXT_VALUE
        return self._together([node.left, node.right])

    def _compare(self, node: ast.Compare) -> Value:
        if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
            return v.NUMBER_VALUE
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Constant) and _is_no_number(side.value) for side in sides):
            return v.NUMBER_VALUE  # no tensor is equal to it: its values are not looked at
        return self._together(sides)

    def _together(self, nodes: list[ast.expr]) -> Value:
        """The result of an operation on several values: on the device if one of them is."""
        values = [self.of(node) for node in nodes]
        for value in values:
            if on_device(value) and not value.needs:
                return value._replace(flags=0)
        symbols = [value for value in values if on_device(value)]
        if symbols:
            needs = reduce(any_of, (value.needs for value in symbols))
            flags, why = symbols[0].flags & ~v.SYMBOL, either([each.why for each in symbols])
            return symbols[0]._replace(flags=flags, needs=needs, why=why)
        if any(value.kinds & v.NUMPY for value in values):
            return v.NUMPY_VALUE
        if any(map(is_batch, values)):
            return BATCH
        if any(value.kinds & v.TENSOR for value in values):
            return HOST
        if all(value.kinds == v.NUMBER for value in values):
            return v.NUMBER_VALUE
        return v.UNKNOWN_VALUE

    def _unary(self, node: ast.UnaryOp) -> Value:
        return v.NUMBER_VALUE if isinstance(node.op, ast.Not) else self.of(node.operand)

    def _either(self, node: ast.IfExp) -> Value:
        return joined([self.of(node.body), self.of(node.orelse)])

    def _bool(self, node: ast.BoolOp) -> Value:
        return joined([self.of(each) for each in node.values])

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set) -> Value:
        if not node.elts:
            found = [self.of(each) for each in appended(self.queries, node)]
            return Value(v.SEQUENCE, item=joined(found) if found else v.UNKNOWN_VALUE)
        items = tuple(v.shallow(self.of(each)) for each in node.elts)
        numbers = isinstance(node, ast.List) and all(each.kinds == v.NUMBER for each in items)
        return INDICES._replace(items=items) if numbers else Value(v.SEQUENCE, items=items)

    def _dict(self, node: ast.Dict) -> Value:
        values = [self.of(each) for each in node.values or stored(self.queries, node)]
        return Value(v.MAPPING, item=joined(values) if values else v.UNKNOWN_VALUE)

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> Value:
        item = v.shallow(self.of(node.elt))
        numbers = isinstance(node, ast.ListComp) and item.kinds == v.NUMBER
        return INDICES if numbers else Value(v.SEQUENCE, item=item)

    def _dict_comprehension(self, node: ast.DictComp) -> Value:
        return Value(v.MAPPING, item=v.shallow(self.of(node.value)))

    def _call(self, node: ast.Call) -> Value:
        return self._results.result(node)


# Attributes of tensors that are known without their values.
def _is_no_number(value: object) -> bool:
    return value is None or isinstance(value, str)


_DESCRIBING = ops.NUMBER_ATTRIBUTES | {"shape", "dtype", "device", "size", "layout", "is_nested"}
_PARTS = ("values", "indices")  # of what a reduction gives
_HANDLERS: dict[type[ast.expr], Callable[[LoopValues, Any], Value]] = {
    ast.Constant: LoopValues._constant,
    ast.Name: LoopValues._name,
    ast.Attribute: LoopValues._attribute,
    ast.Subscript: LoopValues._subscript,
    ast.BinOp: LoopValues._binary,
    ast.Compare: LoopValues._compare,
    ast.UnaryOp: LoopValues._unary,
    ast.IfExp: LoopValues._either,
    ast.BoolOp: LoopValues._bool,
    ast.Tuple: LoopValues._sequence,
    ast.List: LoopValues._sequence,
    ast.Set: LoopValues._sequence,
    ast.Dict: LoopValues._dict,
    ast.ListComp: LoopValues._comprehension,
    ast.GeneratorExp: LoopValues._comprehension,
    ast.SetComp: LoopValues._comprehension,
    ast.DictComp: LoopValues._dict_comprehension,
    ast.JoinedStr: lambda values, node: v.TEXT_VALUE,
    ast.NamedExpr: lambda values, node: values.of(node.value),
    ast.Starred: lambda values, node: v.element(values.of(node.value)),
    ast.Call: LoopValues._call,
}
