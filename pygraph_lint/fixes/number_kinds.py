"""Which expressions of a function are numbers of the host, and which are tensors, before a rewrite
and after it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pygraph_lint.fixes.flow import binds
from pygraph_lint.fixes.names import FileNames, Names, loads, own_nodes, parameters, parents
from pygraph_lint.fixes.source import FUNCTIONS, Function
from pygraph_lint.fixes.tensors import METHODS, shown_in

# What an expression is: a whole number, a number, a tensor, or one of these but not known which.
WHOLE, REAL, TENSOR, OTHER = "whole", "real", "tensor", "other"
NUMBERS = (WHOLE, REAL)
# Attributes that hold several whole numbers: of tensors, and of torch's convolutions.
_SIZES = frozenset(("shape", "kernel_size", "stride", "padding", "dilation", "output_padding"))
_WHOLE_METHODS = frozenset(("size", "dim", "numel"))
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_NO_TENSORS = ("torch.finfo", "torch.iinfo", "torch.device", "torch.is_", "torch.Size")
ROUNDED = {"torch.ceil": "ceil", "torch.floor": "floor", "torch.trunc": "trunc"}
_INT64 = ("torch.int64", "torch.long")


def joined(kinds: list[str | None]) -> str | None:
    """What an expression is that is one of several; None stands for what is not known yet."""
    known = {kind for kind in kinds if kind is not None}
    if len(known) < 2:
        return next(iter(known), None)
    return REAL if known <= {WHOLE, REAL} else OTHER


@dataclass
class View:
    """The file as it is, or as it is after the rewrite (``after``).

    ``held`` says of a node whether it reads one of the attributes that change; ``wrapped`` are the
    calls of torch.tensor that go; ``returned`` is what methods of the class return.
    """

    names: FileNames
    after: bool
    held: Callable[[ast.Attribute], bool]
    wrapped: set[ast.Call] = field(default_factory=set)
    returned: dict[str, str | None] = field(default_factory=dict)


class Kinds:
    """The kinds of one function's expressions; ``path`` leads to the function, and ends in it."""

    def __init__(self, view: View, path: list[ast.AST]) -> None:
        self._view = view
        self._function = path[-1]
        assert isinstance(self._function, FUNCTIONS)
        self._names = Names(view.names, path)
        self._above = parents(path[0])
        self._parameters: dict[str, str | None] = {
            item.arg: _of_parameter(self._function, item) for item in parameters(self._function)
        }
        self._unsteady = _unsteady(self._function)
        self._locals = self._of_locals(self._function)

    def of(self, node: ast.expr | None) -> str | None:
        """What an expression is."""
        handler = _HANDLERS.get(type(node))
        return handler(self, node) if handler is not None else OTHER

    def lost(self, name: str) -> bool:
        """Whether a local name is read where it is not known what it is, or by a function
        inside.
        """
        assert isinstance(self._function, FUNCTIONS)
        own = set(own_nodes(self._function))
        return any(
            read not in own or (self.binding(read) is None and self.of(read) == OTHER)
            for read in loads(self._function, name)
        )

    def callee(self, call: ast.Call) -> str:
        """The qualified name that a call calls, or an empty string."""
        return self._names.callee(call) or ""

    def rounded(self, node: ast.AST) -> ast.Call | None:
        """The inner call of ``torch.ceil(x).to(torch.int64)`` and the like."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        inner, method = node.func.value, node.func.attr
        if not isinstance(inner, ast.Call) or self.callee(inner) not in ROUNDED:
            return None
        single = len(inner.args) == 1 and not inner.keywords
        asked = [self._names.qualified(item) for item in node.args]
        plain = (method == "long" and not asked) or (
            method == "to" and len(asked) == 1 and asked[0] in _INT64
        )
        return inner if single and plain and not node.keywords else None

    def wraps(self, call: ast.Call) -> bool:
        """Whether a call makes an int64 tensor of a number, and nothing more is asked for."""
        if self.callee(call) != "torch.tensor" or len(call.args) != 1:
            return False
        return all(
            item.arg == "dtype" and self._names.qualified(item.value) in _INT64
            for item in call.keywords
        )

    def _of_locals(self, function: Function) -> dict[str, str | None]:
        """What each local name is, whichever of its bindings a read sees.

        Begins with nothing known, so that a name may be computed from itself.
        """
        bound: dict[str, list[ast.expr]] = {}
        fixed = dict(self._parameters)
        values = {
            target: node.value
            for node in own_nodes(function)
            if isinstance(node, ast.Assign) and len(node.targets) == 1
            for target in node.targets
        }
        for node in own_nodes(function):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                if node in values:
                    bound.setdefault(node.id, []).append(values[node])
                else:
                    fixed[node.id] = OTHER
        self._locals = {**dict.fromkeys(bound), **fixed}
        for _ in range(len(bound) + 2):
            new = {
                name: joined([*([fixed[name]] if name in fixed else []), *map(self.of, values)])
                for name, values in bound.items()
            }
            if all(self._locals[name] == kind for name, kind in new.items()):
                break
            self._locals.update(new)
        return self._locals

    # -- by kind of node

    def _constant(self, node: ast.Constant) -> str | None:
        return {int: WHOLE, float: REAL}.get(type(node.value), OTHER)

    def _name(self, node: ast.Name) -> str | None:
        bound = self.binding(node)
        if isinstance(bound, ast.expr):
            return self.of(bound)
        return self._locals.get(node.id, OTHER) if bound is None else self._parameters[node.id]

    def binding(self, node: ast.Name) -> ast.expr | ast.arg | None:
        """The value, or the parameter, that a read certainly sees; None if it may see several."""
        child: ast.AST = node
        while child is not self._function:
            parent = self._above[child]
            inner = isinstance(parent, FUNCTIONS) and parent is not self._function
            if inner or node.id in self._unsteady or _again(parent, node.id):
                return None
            for block in ("body", "orelse", "finalbody"):
                statements = getattr(parent, block, None)
                if isinstance(statements, list) and child in statements:
                    for before in reversed(statements[: statements.index(child)]):
                        if binds(before, node.id):
                            return _plain_value(before, node.id)
            child = parent
        found = (item for item in parameters(self._function) if item.arg == node.id)  # type: ignore[arg-type]
        return next(found, None)

    def _attribute(self, node: ast.Attribute) -> str | None:
        if self._view.held(node):
            return WHOLE if self._view.after else TENSOR
        return WHOLE if node.attr == "ndim" else OTHER

    def _subscript(self, node: ast.Subscript) -> str | None:
        value = node.value
        if isinstance(value, ast.Attribute) and value.attr in _SIZES:
            return OTHER if isinstance(node.slice, ast.Slice) else WHOLE
        return TENSOR if self.of(value) == TENSOR else OTHER

    def _unary(self, node: ast.UnaryOp) -> str | None:
        return OTHER if isinstance(node.op, (ast.Not, ast.Invert)) else self.of(node.operand)

    def _binary(self, node: ast.BinOp) -> str | None:
        left, right = self.of(node.left), self.of(node.right)
        if TENSOR in (left, right):
            return TENSOR
        if not isinstance(node.op, _ARITHMETIC) or OTHER in (left, right):
            return OTHER
        if left is None or right is None:
            return None
        return REAL if isinstance(node.op, ast.Div) else joined([left, right])

    def _either(self, node: ast.IfExp) -> str | None:
        return joined([self.of(node.body), self.of(node.orelse)])

    def _call(self, node: ast.Call) -> str | None:
        if node in self._view.wrapped:
            return WHOLE if self._view.after else TENSOR
        inner = self.rounded(node)
        if inner is not None and self._view.after and self.of(inner.args[0]) in (*NUMBERS, None):
            return WHOLE
        name = self.callee(node)
        if name.startswith("torch."):
            return OTHER if name.startswith(_NO_TENSORS) else TENSOR
        if name.startswith("math."):
            return WHOLE if name[5:] in ("ceil", "floor", "trunc", "gcd", "lcm") else REAL
        if isinstance(node.func, ast.Name):
            return self._builtin(node, node.func.id)
        return self._method(node, node.func) if isinstance(node.func, ast.Attribute) else OTHER

    def _builtin(self, node: ast.Call, name: str) -> str | None:
        if self._names.taken(name) or node.keywords:
            return OTHER
        if name in ("max", "min") and len(node.args) > 1:
            return joined([self.of(item) for item in node.args])
        if name == "abs" and len(node.args) == 1:
            return self.of(node.args[0])
        return {"len": WHOLE, "int": WHOLE, "float": REAL}.get(name, OTHER)

    def _method(self, node: ast.Call, function: ast.Attribute) -> str | None:
        if isinstance(function.value, ast.Name) and function.value.id == "self":
            return self._view.returned.get(function.attr, OTHER)
        if function.attr in _WHOLE_METHODS and (node.args or function.attr != "size"):
            return WHOLE
        tensor = function.attr in METHODS and self.of(function.value) == TENSOR
        return TENSOR if tensor else OTHER


_HANDLERS: dict[type, Callable[[Any, Any], str | None]] = {
    ast.Constant: Kinds._constant,
    ast.Name: Kinds._name,
    ast.Attribute: Kinds._attribute,
    ast.Subscript: Kinds._subscript,
    ast.UnaryOp: Kinds._unary,
    ast.BinOp: Kinds._binary,
    ast.IfExp: Kinds._either,
    ast.Call: Kinds._call,
}


def _of_parameter(function: Function, parameter: ast.arg) -> str:
    """What a parameter is annotated to be, or is used as."""
    kind = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    if kind in ("int", "float"):
        return WHOLE if kind == "int" else REAL
    return TENSOR if shown_in(function, parameter.arg) else OTHER


def _again(parent: ast.AST, name: str) -> bool:
    """Whether a name may have another value in a part of a statement than in front of it: in
    another turn, behind a statement that raised, in a comprehension of its own.
    """
    if isinstance(parent, (ast.For, ast.AsyncFor, ast.While, ast.Try)):
        return binds(parent, name)
    turns = getattr(parent, "generators", [])
    return any(binds(turn, name) for turn in turns)


def _unsteady(function: Function) -> set[str]:
    """Names that something else binds than assignments, loops and parameters."""
    found: set[str] = set()
    for node in own_nodes(function):
        if isinstance(node, ast.NamedExpr):
            found.add(node.target.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            found.update(node.names)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            parts = ast.walk(node.optional_vars)
            found.update(part.id for part in parts if isinstance(part, ast.Name))
        elif isinstance(node, (ast.MatchAs, ast.MatchStar, ast.ExceptHandler)) and node.name:
            found.add(node.name)
    return found


def _plain_value(statement: ast.stmt, name: str) -> ast.expr | None:
    """What a statement ``name = value`` binds; None for any other."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    return statement.value if isinstance(target, ast.Name) and target.id == name else None
