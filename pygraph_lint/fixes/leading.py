"""Functions that treat each element of the leading dimensions alone, however many these are.

What ``f(x[mask], table[mask, :])`` computes for the rows that a mask selects is then what
``f(x, table)`` computes at these places. Followed are arithmetic, elementwise functions, functions
along the last dimension, indexing behind an ellipsis, and branches on what is no tensor.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.guard_check import only_checks
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal

#: What an expression is: None for what is the same everywhere (numbers), else the number of
#: dimensions behind the leading ones.
Behind = int | None

_ELEMENTWISE = frozenset(
    (
        *("abs", "add", "sub", "mul", "div", "true_divide", "pow", "square", "exp", "expm1", "neg"),
        *("log", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "atan2", "sign"),
        *("sigmoid", "tanh", "relu", "softplus", "silu", "gelu", "leaky_relu", "elu", "erf"),
        *("clamp", "clip", "clamp_min", "clamp_max", "maximum", "minimum", "where", "floor"),
        *("ceil", "round", "lerp", "logaddexp", "isnan", "isinf", "isfinite", "logical_not"),
        *("logical_and", "logical_or", "eq", "ne", "lt", "le", "gt", "ge"),
    )
)
_ALONG = frozenset(("softmax", "log_softmax", "cumsum", "cumprod", "flip"))
_REDUCED = frozenset(("sum", "mean", "prod", "amax", "amin", "logsumexp", "any", "all"))
_CASTS = frozenset(("float", "double", "half", "bfloat16", "long", "int", "bool", "clone"))
_HOMES = ("torch.nn.functional.", "torch.")


class Leading:
    """Follows a function's statements; ``behind`` holds what its parameters are.

    Raises Declined for what may look at several elements of the leading dimensions, or change a
    tensor that it was given.
    """

    def __init__(self, proposal: Proposal, behind: dict[str, Behind], locals_: set[str]) -> None:
        self._proposal = proposal
        self._behind = behind
        self._locals = locals_
        self._own: set[str] = set()

    def results(self, body: list[ast.stmt]) -> list[list[Behind]]:
        """What each ``return`` of a block gives, a tuple's parts one by one."""
        found: list[list[Behind]] = []
        for number, statement in enumerate(body):
            if isinstance(statement, ast.Return) and statement.value is not None:
                value = statement.value
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                return [*found, [self.kind(part) for part in parts]]
            if isinstance(statement, ast.If) and not self._only_checks(statement):
                self._same(statement.test)
                # Each arm with what follows it: what they bind may differ.
                rest = body[number + 1 :]
                arms = (statement.body, statement.orelse)
                return found + [one for arm in arms for one in self._fork().results([*arm, *rest])]
            if isinstance(statement, ast.Raise):
                return found
            self._follow(statement)
        raise Declined("the function may give nothing back")

    def kind(self, node: ast.expr) -> Behind:
        """What an expression is."""
        if isinstance(node, ast.Constant):
            return None
        if isinstance(node, ast.Name):
            if node.id in self._locals and node.id not in self._behind:
                raise self._declined(node, "may not be set")
            return self._behind.get(node.id)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
            return self.kind(node.operand)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            return self._together(node, node.left, node.right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            return self._compared(node)
        if isinstance(node, ast.IfExp):
            self._same(node.test)
            return self._together(node, node.body, node.orelse)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self._declined(node, "is not followed")

    def _fork(self) -> Leading:
        other = Leading(self._proposal, dict(self._behind), self._locals)
        other._own = set(self._own)
        return other

    def _declined(self, node: ast.AST, reason: str) -> Declined:
        text = ast.unparse(node).splitlines()[0]
        return Declined(f"{text if len(text) < 60 else text[:57] + '...'} {reason}")

    def _only_checks(self, statement: ast.If) -> bool:
        """``if not torch.compiler.is_compiling(): check(...)``: no value comes from there."""
        test = statement.test
        call = test.operand if isinstance(test, ast.UnaryOp) else None
        asked = None if call is None else self._proposal.names.callee(call)
        checks = all(isinstance(it, ast.Expr) and only_checks(it.value) for it in statement.body)
        return asked == "torch.compiler.is_compiling" and checks and not statement.orelse

    def _follow(self, statement: ast.stmt) -> None:
        """A statement that binds a name, or writes into a tensor made here."""
        if isinstance(statement, ast.Expr):
            if not isinstance(statement.value, ast.Constant) and not only_checks(statement.value):
                raise self._declined(statement, "does more than compute")
            return
        if isinstance(statement, ast.If):
            return
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            if isinstance(target, ast.Name):
                self._bind(target.id, statement.value)
                return
            self._write(target, statement.value)
        elif isinstance(statement, ast.AugAssign):
            self._write(statement.target, statement.value)
        else:
            raise self._declined(statement, "does more than compute")

    def _bind(self, name: str, value: ast.expr) -> None:
        self._behind[name] = self.kind(value)
        self._own.discard(name)
        if self._is_own(value):
            self._own.add(name)

    def _is_own(self, value: ast.expr) -> bool:
        """Whether an expression is a tensor made in the function."""
        if isinstance(value, ast.Name):
            return value.id in self._own
        if isinstance(value, ast.IfExp):
            return self._is_own(value.body) and self._is_own(value.orelse)
        if isinstance(value, ast.BinOp):
            return True
        called = value.func if isinstance(value, ast.Call) else None
        name = called.attr if isinstance(called, ast.Attribute) else ""
        return called is not None and name not in (*_CASTS - {"clone"}, "unsqueeze")

    def _write(self, target: ast.expr, value: ast.expr) -> None:
        """``name += value``, or ``name[..., 0] = value`` or ``+= value``."""
        held = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(held, ast.Name):
            raise self._declined(target, "is written to")
        place, given = self.kind(target), self.kind(value)
        if place is None:
            raise self._declined(target, "is changed")
        own = held.id in self._own
        self._proposal.need("own", own, f"{held.id} may be what was passed, and is changed")
        if given not in (None, place):
            raise self._declined(target, "has not the dimensions of what is written")

    def _attribute(self, node: ast.Attribute) -> Behind:
        if self.kind(node.value) is not None and node.attr not in ("dtype", "device"):
            raise self._declined(node, "is not followed")
        return None

    def _same(self, *nodes: ast.expr | None) -> None:
        """Need numbers, or nothing."""
        for node in nodes:
            if isinstance(node, ast.BoolOp):
                self._same(*node.values)
            elif isinstance(node, ast.UnaryOp):
                self._same(node.operand)
            elif node is not None and self.kind(node) is not None:
                raise self._declined(node, "may differ from place to place")

    def _together(self, whole: ast.AST, *nodes: ast.expr) -> Behind:
        """What goes into one operation, element by element."""
        kinds = {self.kind(node) for node in nodes} - {None}
        if len(kinds) > 1:
            raise self._declined(whole, "joins tensors of other dimensions")
        return kinds.pop() if kinds else None

    def _compared(self, node: ast.Compare) -> Behind:
        if isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            self._same(node.left, node.comparators[0])
        return self._together(node, node.left, node.comparators[0])

    def _subscript(self, node: ast.Subscript) -> Behind:
        """``x[..., 0]``, ``x[..., 1:]``, ``x[..., None]``, ``x.shape[-1]``, ``numbers[0]``."""
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            behind = self.kind(node.value.value)
            if behind is not None and -behind <= (_number(node.slice) or 0) < 0:
                return None
            raise self._declined(node, "may be a size of the leading dimensions")
        behind = self.kind(node.value)
        if behind is None:
            self._same(node.slice)
            return None
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        if not index or ast.unparse(index[0]) != "...":
            raise self._declined(node, "indexes the leading dimensions")
        used, left = 0, 0
        for item in index[1:]:
            new = isinstance(item, ast.Constant) and item.value is None
            if isinstance(item, ast.Slice):
                self._same(item.lower, item.upper, item.step)
            elif not new and _number(item) is None:
                raise self._declined(node, "is indexed by what is not written out")
            used += not new
            left += new or isinstance(item, ast.Slice)
        if used > behind:
            raise self._declined(node, "indexes the leading dimensions")
        return behind - used + left

    def _call(self, node: ast.Call) -> Behind:
        name = self._proposal.names.callee(node)
        given = {item.arg: item.value for item in node.keywords}
        if None in given or any(isinstance(item, ast.Starred) for item in node.args):
            raise self._declined(node, "is not followed")
        named = {key: value for key, value in given.items() if key is not None}
        if name is None:
            method = node.func
            if not isinstance(method, ast.Attribute) or self.kind(method.value) is None:
                raise self._declined(node, "is not followed")
            return self._operation(node, method.attr, [method.value, *node.args], named)
        if name.startswith("math."):
            self._same(*node.args, *named.values())
            return None
        home = next((it for it in _HOMES if name.startswith(it)), None)
        if home is None:
            raise self._declined(node, "is not followed")
        return self._operation(node, name.removeprefix(home), node.args, named)

    def _operation(
        self, node: ast.Call, name: str, given: list[ast.expr], named: dict[str, ast.expr]
    ) -> Behind:
        """An operation of torch, as a function or a method of its first argument."""
        if not given:
            raise self._declined(node, "is not followed")
        if name in _ELEMENTWISE and "out" not in named:
            return self._together(node, *given, *named.values())
        behind = self.kind(given[0])
        if behind is None:
            raise self._declined(node, "is not followed")
        if name in _CASTS and len(given) == 1 and not named:
            return behind
        if name == "unsqueeze" and _along(given[1:], named):
            return behind + 1
        if behind > 0 and name in _ALONG and _along(given[1:], named):
            return behind
        if behind > 0 and name in _REDUCED and _along(given[1:], named, "keepdim"):
            kept = named.get("keepdim")
            if kept is None or isinstance(kept, ast.Constant):
                return behind if kept is not None and bool(kept.value) else behind - 1
        if behind > 0 and name == "gather" and len(given) == 3 and not named:
            last = _number(given[1]) == -1
            if last and self.kind(given[2]) == behind:
                return behind
        if behind > 0 and name == "pad" and self._pads_last(given[1:], named):
            return behind
        raise self._declined(node, "may not treat each row alone")

    def _pads_last(self, given: list[ast.expr], named: dict[str, ast.expr]) -> bool:
        """Whether ``pad`` is given two numbers, for the last dimension, and fills with a number."""
        values = dict(zip(("pad", "mode", "value"), given, strict=False)) | named
        sizes, mode = values.get("pad"), values.get("mode")
        if not isinstance(sizes, (ast.Tuple, ast.List)) or len(sizes.elts) != 2:
            return False
        self._same(*sizes.elts, values.get("value"))
        return mode is None or ast.unparse(mode) == "'constant'"


def _number(node: ast.expr) -> int | None:
    """A whole number that is written out."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return sign * node.value
    return None


def _along(given: list[ast.expr], named: dict[str, ast.expr], *more: str) -> bool:
    """Whether an operation is asked to go along the last dimension, and nothing else but
    ``more``.
    """
    values = [*given, *(value for key, value in named.items() if key in ("dim", "dims"))]
    known = set(named) <= {"dim", "dims", *more}
    if len(values) != 1 or not known:
        return False
    only = values[0]
    if isinstance(only, (ast.Tuple, ast.List)) and len(only.elts) == 1:
        only = only.elts[0]
    return _number(only) == -1


def is_plain(node: ast.expr) -> bool:
    """A name, an attribute of one, or a number."""
    if isinstance(node, ast.UnaryOp):
        return is_plain(node.operand)
    return isinstance(node, ast.Constant) or dotted(node) is not None
