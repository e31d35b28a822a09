"""Expressions to abstract values, with the events that happen on the way."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pygraph_lint.facts import ops
from pygraph_lint.facts import values as v
from pygraph_lint.facts.events import Event, Need, Span
from pygraph_lint.facts.model import Call, FunctionFacts
from pygraph_lint.facts.values import Value

if TYPE_CHECKING:
    from pygraph_lint.facts.context import ModuleContext

Key = tuple[str, int, int]
_BUILTINS = frozenset(dir(builtins))
_TEXT_OR_NONE = v.TEXT | v.NONE
_FLOW = v.RANDOM | v.FINITE | v.DYNAMIC


def span_of(node: ast.AST) -> Span:
    """The node's range, columns in UTF-8 bytes."""
    return Span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def span_to(start: ast.AST, end: ast.AST) -> Span:
    """From the start of one node to the end of another."""
    return Span(start.lineno, start.col_offset, end.end_lineno, end.end_col_offset)  # type: ignore[attr-defined]


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` as text when the expression is just that."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return None


def merge_needs(a: Value, b: Value) -> tuple[Need, ...]:
    """What has to be confirmed for the result of an operation on two values to be a tensor."""
    if a.is_tensor and not a.needs or b.is_tensor and not b.needs:
        return ()
    if a.is_tensor:
        return a.needs
    return b.needs


def merge_device(values: list[Value]) -> int:
    """Where the result of an operation lives: the device wins over the host."""
    found = {value.device for value in values if value.is_tensor}
    if v.ON_DEVICE in found:
        return v.ON_DEVICE
    if found == {v.ON_HOST}:
        return v.ON_HOST
    return v.ANYWHERE


class Expressions:
    """Evaluates expressions of one function in an environment of local names.

    ``env`` maps local names, and ``self.x`` written as such, to values.
    """

    def __init__(self, context: ModuleContext, function: FunctionFacts, env: dict[str, Value]) -> None:
        self.context = context
        self.function = function
        self.env = env
        self.locals: set[str] = set(env)
        self.self_name = ""
        self.owner = function.owner
        self.events: dict[Key, Event] = {}
        self.calls: dict[tuple[str, str, str, int, int], Call] = {}
        self.guards: tuple[Need, ...] = ()
        self.quiet = 0
        self.origins: dict[str, Key] = {}
        self.device_context = 0
        self.half = 0

    # -- bookkeeping -----------------------------------------------------------------------------------------

    def event(
        self,
        kind: str,
        span: Span,
        subject: str,
        about: Value | None = None,
        **notes: str,
    ) -> None:
        """Record what happens at ``span`` because of the value ``about``."""
        if self.quiet:
            return
        needs = self.guards
        evidence: tuple[str, ...] = ()
        if about is not None:
            if about.needs:
                needs = needs + about.needs
            if about.why:
                evidence = (about.why,)
        key = (kind, span.line, span.column)
        old = self.events.get(key)
        if old is not None and (len(old.needs) <= len(needs)) and not notes:
            return
        self.events[key] = Event(kind, span, subject, needs, evidence, tuple(notes.items()))

    def add_note(self, key: Key, name: str, value: str) -> None:
        """Attach a detail to an event that was recorded before; the first one stays."""
        event = self.events.get(key)
        if event is not None and event.note(name) is None:
            self.events[key] = event._replace(notes=(*event.notes, (name, value)))

    def record_call(
        self,
        how: str,
        target: str,
        name: str,
        node: ast.AST,
        positional: list[Value] | None = None,
        named: dict[str, Value] | None = None,
    ) -> None:
        """Record an edge of the call graph."""
        if self.quiet:
            return
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        key = (how, target, name, line, column)
        arguments = tuple(_argument(value) for value in positional or ())
        while arguments and arguments[-1] is None:
            arguments = arguments[:-1]
        keywords = tuple(
            (key_, kept) for key_, value in (named or {}).items() if (kept := _argument(value)) is not None
        )
        self.calls[key] = Call(how, target, name, line, arguments, keywords, self.guards)

    # -- names -----------------------------------------------------------------------------------------------

    def qualified(self, node: ast.expr) -> str | None:
        """The qualified name of a dotted expression whose root is no local of this function."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        if node.id in self.env:
            known = self.env[node.id]
            if known.kinds != v.CALLABLE or not known.cls or "," in known.cls:
                return None
            root: str | None = known.cls
        elif node.id in self.locals:
            return None
        else:
            root = self.context.bindings.get(node.id)
            if root is None:
                if node.id in _BUILTINS and not attributes:
                    return "builtins." + node.id
                return None
        if not attributes:
            return root
        attributes.append(root)  # type: ignore[arg-type]
        return ".".join(reversed(attributes))

    # -- dispatch --------------------------------------------------------------------------------------------

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
        if node.id in _BUILTINS:
            return Value(v.CALLABLE, cls="builtins." + node.id)
        return v.UNKNOWN_VALUE

    def mention(self, target: str, node: ast.AST) -> None:
        """A function named without being called may be called by whoever gets it."""
        if not target.startswith(("torch.", "numpy.", "builtins.")):
            self.record_call("mention", target, "", node)

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
                    return {"config": v.OTHER_VALUE, "device": v.DEVICE_VALUE}.get(name, v.DTYPE_VALUE)
                return symbol(Need("attr", base.cls, name), f"`.{name}` of {short(base.cls)} holds a tensor")
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

    # -- operators -------------------------------------------------------------------------------------------

    def ev_binop(self, node: ast.BinOp) -> Value:
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):  # long sums are nested to the left
            chain.append(chain[-1].left)
        left = self.ev(chain[-1].left)
        for operation in reversed(chain):
            right = self.ev(operation.right)
            self.meet(operation.left, left, operation.right, right)
            left = self.arithmetic(type(operation.op), left, right, operation)
        return left

    def arithmetic(self, operator: type[ast.operator], left: Value, right: Value, node: ast.AST) -> Value:
        """The result of ``left <operator> right``."""
        kinds = left.kinds | right.kinds
        if left.kinds & v.TEXT and not left.kinds & v.TENSOR:
            if operator is ast.Mod:
                self.formatted(right, node)
            return v.TEXT_VALUE
        if kinds & v.TENSOR:
            if (left.kinds | right.kinds) & v.SEQUENCE and operator is ast.Add:
                return v.SEQUENCE_VALUE
            kind = _arithmetic_dtype(operator, left, right)
            flags = (left.flags | right.flags) & _FLOW
            ndim = _broadcast(left, right)
            source = left if left.is_tensor and not (left.needs and right.is_tensor) else right
            if not source.is_tensor:
                source = left
            return v.tensor(source.why, kind, merge_device([left, right]), ndim, flags, merge_needs(left, right))
        if left.kinds & v.SEQUENCE:
            if operator is ast.Add and right.kinds & v.SEQUENCE:
                if left.items is not None and right.items is not None:
                    return v.sequence([*left.items, *right.items])
                return Value(v.SEQUENCE, item=v.join(v.element(left), v.element(right)))
            if operator is ast.Mult:
                return Value(v.SEQUENCE, item=v.element(left))
        if kinds & v.NUMPY:
            return v.NUMPY_VALUE
        if left.const is not None and right.const is not None:
            folded = _fold(operator, left.const, right.const)
            if folded is not None:
                return constant(folded)
        if kinds == v.NUMBER or kinds == v.NUMBER | v.OTHER or kinds == v.OTHER:
            return v.READ_VALUE if (left.flags | right.flags) & v.READ else v.NUMBER_VALUE
        return v.UNKNOWN_VALUE

    def meet(self, left_node: ast.expr, left: Value, right_node: ast.expr, right: Value) -> None:
        """Note, for a tensor made on the host, the device expression of the tensor it meets."""
        if left.is_tensor and right.is_tensor and left.device != right.device:
            self._meet(left_node, left, right_node, right)
            self._meet(right_node, right, left_node, left)

    def _meet(self, host_node: ast.expr, host: Value, device_node: ast.expr, device: Value) -> None:
        if host.device != v.ON_HOST or device.device != v.ON_DEVICE:
            return
        text = dotted(device_node)
        key = None
        if isinstance(host_node, ast.Name):
            key = self.origins.get(host_node.id)
        elif isinstance(host_node, ast.Call):
            for kind in ("host.factory", "host.scalar-tensor", "host.data-tensor"):
                if (kind, host_node.lineno, host_node.col_offset) in self.events:
                    key = (kind, host_node.lineno, host_node.col_offset)
        if key is not None and text is not None:
            self.add_note(key, "meets", f"{text}.device")

    def ev_unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            static = self.truth(node.operand, "branch.not")
            return Value(v.NUMBER, const=None if static is None else not static)
        value = self.ev(node.operand)
        if value.is_tensor:
            return value._replace(flags=value.flags & ~(v.FRESH | v.SYMBOL | v.PLAIN | v.BUFFER))
        if value.kinds == v.NUMBER:
            if isinstance(node.op, ast.USub) and isinstance(value.const, (int, float)):
                return constant(-value.const)
            return value._replace(const=None)
        return value if value.kinds & v.NUMPY else v.UNKNOWN_VALUE

    def ev_compare(self, node: ast.Compare) -> Value:
        left = self.ev(node.left)
        result: Value | None = None
        left_node = node.left
        for operator, right_node in zip(node.ops, node.comparators):
            right = self.ev(right_node)
            if result is not None and result.is_tensor:
                self.event("branch.ternary", span_to(node.left, left_node), "a chained comparison", result)
            result = self.compare(operator, left_node, left, right_node, right)
            left, left_node = right, right_node
        assert result is not None
        return result

    def compare(
        self, operator: ast.cmpop, left_node: ast.expr, left: Value, right_node: ast.expr, right: Value
    ) -> Value:
        """One comparison."""
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return Value(v.NUMBER, const=_identity(operator, left, right))
        if isinstance(operator, (ast.In, ast.NotIn)):
            self.membership(left_node, left, right_node, right)
            return v.NUMBER_VALUE
        if not (left.kinds | right.kinds) & v.TENSOR:
            if left.kinds & v.NUMPY or right.kinds & v.NUMPY:
                return v.NUMPY_VALUE
            read = (left.flags | right.flags) & v.READ
            if left.const is not None and right.const is not None:
                return Value(v.NUMBER, const=_fold_compare(operator, left.const, right.const))
            return v.READ_VALUE if read else v.NUMBER_VALUE
        for one, other in ((left, right), (right, left)):
            if one.is_tensor and not other.is_tensor:
                if other.kinds & (_TEXT_OR_NONE | v.SEQUENCE | v.MAPPING | v.DTYPE | v.DEVICE) and not (
                    other.kinds & v.UNKNOWN
                ):
                    return v.NUMBER_VALUE
                if one.needs and other.const is not None and isinstance(other.const, (str, bool)):
                    return v.NUMBER_VALUE
        self.meet(left_node, left, right_node, right)
        flags = (left.flags | right.flags) & _FLOW
        source = left if left.is_tensor else right
        return v.tensor(
            source.why, "bool", merge_device([left, right]), _broadcast(left, right), flags, merge_needs(left, right)
        )

    def membership(self, left_node: ast.expr, left: Value, right_node: ast.expr, right: Value) -> None:
        """``left in right``: compares values where either side holds tensors."""
        if right.is_tensor and not right.kinds & (v.SEQUENCE | v.MAPPING):
            if not right.needs:
                self.event("branch.membership", span_to(left_node, right_node), "in", right)
        elif left.is_tensor and not left.needs and right.kinds & v.SEQUENCE:
            self.event("branch.membership", span_to(left_node, right_node), "in", left)

    def ev_boolop(self, node: ast.BoolOp) -> Value:
        result: Value | None = None
        saved_guards = self.guards
        saved: list[tuple[str, Value | None]] = []
        conjunction = isinstance(node.op, ast.And)
        last = len(node.values) - 1
        for index, operand in enumerate(node.values):
            if index == last:
                value = self.ev(operand)
                static: bool | None = bool(value.const) if value.const is not None else None
            else:
                before = self.ev_quiet(operand)
                static = self.truth(operand, "branch.ternary")
                value = before._replace(const=None)
            result = value if result is None else v.join(result, value)
            if static is not None and static != conjunction and index < last:
                result = Value(v.NUMBER, const=static) if result.kinds == v.NUMBER else result
                break
            if index < last:
                self.guard(operand, conjunction)
                saved += self.narrow(operand, conjunction)
        self.guards = saved_guards
        self.restore(saved)
        assert result is not None
        return result

    def ev_quiet(self, node: ast.expr) -> Value:
        """The value of an expression that is evaluated for events elsewhere."""
        self.quiet += 1
        value = self.ev(node)
        self.quiet -= 1
        return value

    def ev_ifexp(self, node: ast.IfExp) -> Value:
        static = self.truth(node.test, "branch.ternary")
        if static is True:
            return self.ev(node.body)
        if static is False:
            return self.ev(node.orelse)
        saved_guards = self.guards
        self.guard(node.test, True)
        saved = self.narrow(node.test, True)
        then = self.ev(node.body)
        self.restore(saved)
        self.guards = saved_guards
        self.guard(node.test, False)
        saved = self.narrow(node.test, False)
        other = self.ev(node.orelse)
        self.restore(saved)
        self.guards = saved_guards
        return v.join(then, other)

    # -- truth -----------------------------------------------------------------------------------------------

    def truth(self, node: ast.expr, kind: str) -> bool | None:
        """Evaluate a condition; records an event where a tensor decides. Returns its value where that is fixed."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inner = self.truth(node.operand, kind)
            return None if inner is None else not inner
        if isinstance(node, ast.BoolOp):
            return self.truth_of_all(node, kind)
        value = self.ev(node)
        if value.is_tensor:
            self.decided_by(node, value, kind)
            return None
        if value.const is not None:
            return bool(value.const)
        if value.kinds == v.NONE:
            return False
        return None

    def truth_of_all(self, node: ast.BoolOp, kind: str) -> bool | None:
        """``and`` / ``or`` as a condition: later operands run only where the earlier ones allow it."""
        conjunction = isinstance(node.op, ast.And)
        saved_guards = self.guards
        saved: list[tuple[str, Value | None]] = []
        result: bool | None = conjunction
        halves = 0
        for operand in node.values:
            decides = kind if operand is node.values[-1] or kind != "branch.assert" else "branch.ternary"
            static = self.truth(operand, decides)
            if static is None:
                result = None
            elif static != conjunction:
                result = static
                break
            self.guard(operand, conjunction)
            saved += self.narrow(operand, conjunction)
            halves += conjunction and self.tests_half(operand)
            self.half += conjunction and self.tests_half(operand)
        self.half -= halves
        self.guards = saved_guards
        self.restore(saved)
        return result

    def tests_half(self, node: ast.expr) -> bool:
        """Whether a condition is ``x.dtype == torch.float16``: what follows only happens in half precision."""
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq):
            return False
        return any(self.qualified(side) in _HALF for side in (node.left, node.comparators[0]) if dotted(side))

    def decided_by(self, node: ast.expr, value: Value, kind: str) -> None:
        """A tensor's value decides which way the program goes."""
        if kind not in ("branch.assert", "branch.while"):
            if value.flags & v.RANDOM:
                kind = "branch.random-skip"
            elif value.flags & v.FINITE:
                kind = "branch.half-guard" if self.half else "branch.finite-guard"
        if value.flags & v.DECIDED:
            return
        self.event(kind, span_of(node), source_of(node), value)
        place = self.place(node)
        if place is not None:  # later tests of the same name have the same cause
            self.env[place] = value._replace(flags=value.flags | v.DECIDED)

    def guard(self, node: ast.expr, outcome: bool) -> None:
        """Remember that what follows runs only if a predicate of the project can give ``outcome``."""
        while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node, outcome = node.operand, not outcome
        if isinstance(node, ast.BoolOp):
            if isinstance(node.op, ast.And) == outcome:
                for operand in node.values:
                    self.guard(operand, outcome)
            return
        if not isinstance(node, ast.Call):
            return
        name = self.qualified(node.func)
        if name is not None and name.rpartition(".")[2].startswith(("is_", "_is_", "has_")):
            if not name.startswith(("torch.", "builtins.")):
                self.guards = (*self.guards, Need("true" if outcome else "false", name, ""))

    def narrow(self, node: ast.expr, outcome: bool) -> list[tuple[str, Value | None]]:
        """Use what a condition says about a name; returns what to put back."""
        while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node, outcome = node.operand, not outcome
        if isinstance(node, ast.BoolOp):
            saved: list[tuple[str, Value | None]] = []
            if isinstance(node.op, ast.And) == outcome:
                for operand in node.values:
                    saved += self.narrow(operand, outcome)
            return saved
        name, value = self.narrowed(node, outcome)
        if name is None or value is None:
            return []
        old = self.env.get(name)
        self.env[name] = value
        return [(name, old)]

    def narrowed(self, node: ast.expr, outcome: bool) -> tuple[str | None, Value | None]:
        """The name a test is about, and its value where the test came out as ``outcome``."""
        if isinstance(node, ast.Call) and node.args:
            function = self.qualified(node.func)
            name = self.place(node.args[0])
            if name is None:
                return None, None
            if function == "torch.is_tensor":
                return name, as_tensor(self.ev_quiet(node.args[0]), outcome)
            if function == "builtins.isinstance" and len(node.args) == 2:
                return name, self.narrowed_by_class(self.ev_quiet(node.args[0]), node.args[1], outcome)
            return None, None
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            right = node.comparators[0]
            if isinstance(right, ast.Constant) and right.value is None:
                name = self.place(node.left)
                if name is None:
                    return None, None
                value = self.ev_quiet(node.left)
                is_none = isinstance(node.ops[0], ast.Is) == outcome
                if is_none:
                    return name, v.NONE_VALUE
                if value.kinds & v.NONE and value.kinds != v.NONE:
                    return name, value._replace(kinds=value.kinds & ~v.NONE)
        return None, None

    def place(self, node: ast.expr) -> str | None:
        """The key of ``env`` an expression is kept under: a name or ``self.x``."""
        if isinstance(node, ast.Name):
            return node.id if node.id in self.env else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == self.self_name and self.self_name:
                return "self." + node.attr
        return None

    def narrowed_by_class(self, value: Value, classes: ast.expr, outcome: bool) -> Value | None:
        """A value after ``isinstance`` said ``outcome``."""
        nodes = classes.elts if isinstance(classes, ast.Tuple) else [classes]
        bits = 0
        instance = ""
        for node in nodes:
            name = self.qualified(node) or ""
            bit = _CLASS_KINDS.get(name, 0)
            if name in ops.TENSOR_TYPES:
                bit = v.TENSOR
            if bit == 0:
                instance = name
            bits |= bit
        if outcome:
            if instance:
                return Value(v.INSTANCE, cls=instance) if len(nodes) == 1 else None
            if bits == v.TENSOR:
                return as_tensor(value, True)
            kept = value.kinds & bits
            return value._replace(kinds=kept, needs=value.needs if kept & v.TENSOR else ()) if kept else Value(bits)
        if instance:
            return None
        left = value.kinds & ~bits
        if not left:
            return None
        if not left & v.TENSOR:
            return Value(left, items=value.items, item=value.item, cls=value.cls)
        return value._replace(kinds=left)

    def restore(self, saved: list[tuple[str, Value | None]]) -> None:
        """Undo what ``narrow`` did."""
        for name, value in reversed(saved):
            if value is None:
                self.env.pop(name, None)
            else:
                self.env[name] = value

    # -- the rest, in other files ----------------------------------------------------------------------------

    def formatted(self, value: Value, node: ast.AST) -> None:
        """A value turned into text."""
        for part in (value, *(value.items or ())):
            if part.is_tensor and not part.needs and not part.kinds & v.UNKNOWN:
                self.event("sync.format", span_of(node), "text", part)
                return


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

_HALF = frozenset(("torch.float16", "torch.half"))

_CLASS_KINDS: dict[str, int] = {
    "builtins.int": v.NUMBER,
    "builtins.float": v.NUMBER,
    "builtins.bool": v.NUMBER,
    "builtins.complex": v.NUMBER,
    "numbers.Number": v.NUMBER,
    "numbers.Real": v.NUMBER,
    "builtins.str": v.TEXT,
    "builtins.list": v.SEQUENCE,
    "builtins.tuple": v.SEQUENCE,
    "builtins.dict": v.MAPPING,
    "collections.abc.Sequence": v.SEQUENCE,
    "collections.abc.Mapping": v.MAPPING,
    "numpy.ndarray": v.NUMPY,
    "torch.device": v.DEVICE,
    "torch.dtype": v.DTYPE,
    "builtins.type": v.OTHER,
}


def symbol(need: Need, why: str, extra: int = 0) -> Value:
    """A value that is a tensor if ``need`` is confirmed."""
    device = v.ANYWHERE if need.kind == "return" else v.ON_DEVICE
    return Value(v.TENSOR | v.UNKNOWN | extra, device=device, flags=v.SYMBOL, needs=(need,), why=why)


def is_symbol(value: Value) -> bool:
    """Whether the value is exactly what its need names."""
    return bool(value.flags & v.SYMBOL)


def extend(value: Value, step: str) -> Value:
    """The element, attribute or call result ``step`` of a symbol."""
    if not value.needs or value.needs[0].name.count("|") > 3:
        return v.UNKNOWN_VALUE
    need = value.needs[0]
    return symbol(Need(need.kind, need.owner, f"{need.name}|{step}"), value.why)


def as_tensor(value: Value, outcome: bool) -> Value | None:
    """A value after a test whether it is a tensor."""
    if outcome:
        if value.is_tensor:
            return value._replace(kinds=v.TENSOR, needs=(), flags=value.flags & ~v.SYMBOL)
        return v.tensor("the code tests that it is a tensor", device=v.ANYWHERE)
    kinds = value.kinds & ~v.TENSOR
    if kinds == 0:
        return None
    return Value(kinds, items=value.items, item=value.item, cls=value.cls)


def constant(value: object) -> Value:
    """The value of a literal."""
    if value is None:
        return v.NONE_VALUE
    if isinstance(value, str):
        return Value(v.TEXT, const=value if len(value) < 40 else None, flags=v.LITERAL)
    if isinstance(value, (bool, int, float, complex)):
        return Value(v.NUMBER, const=value, flags=v.LITERAL)
    return v.OTHER_VALUE


def short(name: str) -> str:
    """The last two parts of a qualified name."""
    return ".".join(name.rsplit(".", 2)[-2:]) if name.count(".") > 1 else name


def source_of(node: ast.AST, limit: int = 60) -> str:
    """The expression as short source text."""
    text = ast.unparse(node)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _argument(value: Value) -> Value | None:
    if value.kinds & (v.TENSOR | v.CALLABLE):
        return value if not value.items else value._replace(items=None)
    if value.kinds & (v.SEQUENCE | v.MAPPING):
        inner = v.element(value) if value.items is not None or value.item is not None else v.UNKNOWN_VALUE
        if inner.kinds & v.TENSOR:
            return Value(v.SEQUENCE, item=inner._replace(items=None, item=None))
    return None


def _identity(operator: ast.cmpop, left: Value, right: Value) -> bool | None:
    positive = isinstance(operator, ast.Is)
    if right.kinds == v.NONE:
        if left.kinds == v.NONE:
            return positive
        if not left.kinds & (v.NONE | v.UNKNOWN) and not left.needs and not left.flags & v.BUFFER:
            return not positive
    return None


def _arithmetic_dtype(operator: type[ast.operator], left: Value, right: Value) -> str:
    if operator is ast.Div:
        return "float"
    kinds = {value.dtype for value in (left, right) if value.is_tensor}
    if len(kinds) == 1:
        kind = kinds.pop()
        if kind == "bool" and operator not in (ast.BitAnd, ast.BitOr, ast.BitXor):
            return "int"
        other = right if left.is_tensor else left
        if kind == "int" and isinstance(other.const, float):
            return "float"
        return kind
    if "float" in kinds:
        return "float"
    return ""


def _broadcast(left: Value, right: Value) -> int:
    ranks = []
    for value in (left, right):
        if value.is_tensor:
            if value.ndim < 0:
                return -1
            ranks.append(value.ndim)
        elif not value.kinds & v.NUMBER or value.kinds & v.UNKNOWN:
            return -1
    return max(ranks) if ranks else -1


def _fold(operator: type[ast.operator], left: object, right: object) -> object | None:
    if not isinstance(left, (bool, int, float)) or not isinstance(right, (bool, int, float)):
        return None
    if operator is ast.BitOr and isinstance(left, bool) and isinstance(right, bool):
        return left or right
    if operator is ast.BitAnd and isinstance(left, bool) and isinstance(right, bool):
        return left and right
    if operator is ast.Add:
        return left + right
    if operator is ast.Sub:
        return left - right
    return None


def _fold_compare(operator: ast.cmpop, left: object, right: object) -> bool | None:
    if isinstance(operator, ast.Eq):
        return left == right
    if isinstance(operator, ast.NotEq):
        return left != right
    return None
