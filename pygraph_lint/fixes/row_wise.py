"""What a loop over groups computes for the rows of one group, written for the rows of all groups,
sorted by group.

Arithmetic and activations treat each row alone, so they stay as they are. ``x[token]`` is a row
for each token. A product with ``weights[group]`` becomes one with all weights, in blocks.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from pygraph_lint.fixes.blocks import NAME as GROUPED_MATMUL
from pygraph_lint.fixes.names import all_nodes, dotted, loads, own_nodes, parameters, parents
from pygraph_lint.fixes.proposal import Change, Declined, Proposal
from pygraph_lint.fixes.tensors import pure_expression


class Kind(Enum):
    """What a value is to one turn of the loop."""

    SHARED = "the same in every turn"
    ROW = "a tensor with the number of the turn's group"
    GROUP = "the number of the turn's group"
    TOKEN = "which tokens the rows are made of"
    CHOICE = "for each row, which choice of its token it is"
    ROWS = "a row for each of them"
    WEIGHT = "the group's matrix, taken out of a stack of them"
    TURNED = "its transpose"


class _Product(NamedTuple):
    rows: ast.expr
    weight: ast.expr
    turned: bool


_LINEAR = "torch.nn.functional.linear"
_PRODUCTS = ("torch.matmul", "torch.mm")
_ACTIVATIONS = frozenset(
    f"torch.nn.{name}"
    for name in (
        *("Identity", "ReLU", "ReLU6", "SiLU", "GELU", "Mish", "Sigmoid", "Tanh", "Softplus"),
        *("ELU", "CELU", "SELU", "LeakyReLU", "Hardswish", "Hardsigmoid", "Hardtanh"),
    )
)
_ELEMENTWISE = frozenset(
    (
        *("abs", "add", "sub", "mul", "div", "pow", "exp", "sqrt", "rsqrt", "neg", "clamp"),
        *("relu", "sigmoid", "tanh", "to", "type", "type_as", "float", "half", "double"),
        *("bfloat16",),
    )
)
_FUNCTIONS = frozenset(
    (
        *(f"torch.{name}" for name in ("sigmoid", "tanh", "relu", "exp", "mul", "add", "clamp")),
        *(
            f"torch.nn.functional.{name}"
            for name in ("relu", "silu", "gelu", "sigmoid", "tanh", "mish", "softplus", "hardswish")
        ),
    )
)


class RowWise:
    """Follows the statements of a loop or a function, and notes what to write instead.

    ``bound`` are the names that a turn gives a value; reading one before would read the turn
    before. Raises Declined for what is not the same row by row.
    """

    def __init__(
        self, proposal: Proposal, kinds: dict[str, Kind], bound: set[str], sizes: str
    ) -> None:
        self.proposal = proposal
        self.kinds = kinds
        self.limit: str | None = None
        self.multiplies = False
        self.inner: list[tuple[ast.FunctionDef, RowWise]] = []
        self._bound = bound
        self._sizes = sizes
        self._edits: list[Change] = []

    def assign(self, statement: ast.Assign) -> None:
        """Follow ``name = value`` or ``one, two = rows.chunk(2, dim=-1)``."""
        target = statement.targets[0]
        if len(statement.targets) == 1 and isinstance(target, ast.Name):
            self.kinds[target.id] = self.kind(statement.value)
            return
        names = target.elts if isinstance(target, ast.Tuple) else []
        parts = self._parts(statement.value)
        if not parts or not all(isinstance(name, ast.Name) for name in names):
            raise Declined("the loop does more than compute rows")
        self.kinds |= {name.id: Kind.ROWS for name in names if isinstance(name, ast.Name)}

    def edited(self, start: int, end: int) -> str:
        """The text between two offsets, with what is written instead."""
        text = ""
        for edit in sorted(self._edits):
            if start <= edit.start and edit.end <= end:
                text += self.proposal.source.text[start : edit.start] + edit.content
                start = edit.end
        return text + self.proposal.source.text[start:end]

    @property
    def edits(self) -> tuple[Change, ...]:
        """What is written instead."""
        return tuple(self._edits)

    def replace(self, node: ast.AST, content: str) -> None:
        """Write something else for a node."""
        start, end = self.proposal.source.span(node)
        inside = [edit for edit in self._edits if start <= edit.start and edit.end <= end]
        self._edits = [edit for edit in self._edits if edit not in inside]
        self._edits.append(Change(start, end, content))

    def text(self, node: ast.AST) -> str:
        """A node's text, with what is written instead."""
        return self.edited(*self.proposal.source.span(node))

    def rows(self, node: ast.expr) -> None:
        """Need a row for each row of the turn."""
        if self.kind(node) is not Kind.ROWS:
            raise Declined(f"{ast.unparse(node)} is no tensor of rows")

    def kind(self, node: ast.expr) -> Kind:
        """What an expression is."""
        if isinstance(node, ast.Constant):
            return Kind.SHARED
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Subscript):
            return self._subscript(node)
        if isinstance(node, ast.UnaryOp):
            return self._together(node.operand)
        product = self._product(node)
        if product is not None:
            return self._multiply(node, product)
        if isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult):
            return self._together(node.left, node.right)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return self._same(node, *node.elts)
        raise Declined(f"{ast.unparse(node)} may not treat each row alone")

    def _name(self, node: ast.Name) -> Kind:
        if node.id in self._bound and node.id not in self.kinds:
            raise Declined(f"{node.id} may be that of the turn before")
        return self.kinds.get(node.id, Kind.SHARED)

    def _attribute(self, node: ast.Attribute) -> Kind:
        kind = self.kind(node.value)
        if kind in (Kind.WEIGHT, Kind.TURNED) and node.attr in ("T", "mT"):
            self.replace(node, self.text(node.value))
            return Kind.TURNED if kind is Kind.WEIGHT else Kind.WEIGHT
        if kind is not Kind.SHARED and node.attr not in ("dtype", "device"):
            raise Declined(f"{ast.unparse(node)} may not be the same in every turn")
        return Kind.SHARED

    def _subscript(self, node: ast.Subscript) -> Kind:
        whole = self.kind(node.value)
        index = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        kinds = [Kind.SHARED if isinstance(it, ast.Slice) else self.kind(it) for it in index]
        if whole is Kind.SHARED and kinds == [Kind.GROUP]:
            limited = f"[: {self.limit}]" if self.limit else ""
            self.replace(node, self.text(node.value) + limited)
            return Kind.WEIGHT
        if whole is Kind.SHARED and kinds[0] is Kind.TOKEN:
            rest = [(kind, it) for kind, it in zip(kinds, index, strict=True)][1:]
            if all(kind is Kind.CHOICE or _keeps_rows(it) for kind, it in rest):
                return Kind.ROWS
        return self._same(node, node.value, *index)

    def _together(self, *nodes: ast.expr) -> Kind:
        """Arithmetic with rows gives rows."""
        kinds = {self.kind(node) for node in nodes}
        if not kinds <= {Kind.ROWS, Kind.SHARED}:
            raise Declined("a number of a group, or its matrix, goes into arithmetic")
        return Kind.ROWS if Kind.ROWS in kinds else Kind.SHARED

    def _same(self, node: ast.expr, *parts: ast.expr) -> Kind:
        """An expression that is the same in every turn, and has no effect."""
        inner = [it for it in parts if not isinstance(it, ast.Slice)]
        shared = all(self.kind(part) is Kind.SHARED for part in inner)
        for part in parts:
            bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else ()
            shared = shared and all(it is None or self.kind(it) is Kind.SHARED for it in bounds)
        if not shared or not pure_expression(self.proposal, node):
            raise Declined(f"{ast.unparse(node)} may not be the same in every turn")
        return Kind.SHARED

    def _product(self, node: ast.expr) -> _Product | None:
        """The factors of a matrix product, if the second one is a group's."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return _Product(node.left, node.right, False)
        if not isinstance(node, ast.Call) or node.keywords or not node.args:
            return None
        name = self.proposal.names.callee(node)
        if name == _LINEAR or name in _PRODUCTS:
            if len(node.args) != 2:
                return None
            return _Product(node.args[0], node.args[1], name == _LINEAR)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name is not None or method not in ("matmul", "mm") or len(node.args) != 1:
            return None
        assert isinstance(node.func, ast.Attribute)
        return _Product(node.func.value, node.args[0], False)

    def _multiply(self, node: ast.expr, product: _Product) -> Kind:
        self.rows(product.rows)
        kind = self.kind(product.weight)
        if kind not in (Kind.WEIGHT, Kind.TURNED):
            raise Declined(f"{ast.unparse(product.weight)} is not a matrix of the group")
        turn = ".transpose(1, 2)" if product.turned != (kind is Kind.TURNED) else ""
        rows, weights = self.text(product.rows), self.text(product.weight)
        self.replace(node, f"{GROUPED_MATMUL}({rows}, {weights}{turn}, {self._sizes})")
        self.multiplies = True
        return Kind.ROWS

    def _call(self, node: ast.Call) -> Kind:
        given = [*node.args, *(item.value for item in node.keywords)]
        name = self.proposal.names.callee(node)
        if name is not None:
            if name in _FUNCTIONS:
                return self._together(*given)
            return self._same(node, *given)
        if not isinstance(node.func, ast.Attribute):
            raise Declined(f"{ast.unparse(node.func)} may not treat each row alone")
        if dotted(node.func.value) == "self":
            return self._layer(node, given)
        return self._method(node, node.func, given)

    def _method(self, node: ast.Call, function: ast.Attribute, given: list[ast.expr]) -> Kind:
        kind = self.kind(function.value)
        if kind is Kind.SHARED:
            return self._same(node, function.value, *given)
        if kind in (Kind.WEIGHT, Kind.TURNED) and _turns(function.attr, given):
            self.replace(node, self.text(function.value))
            return Kind.TURNED if kind is Kind.WEIGHT else Kind.WEIGHT
        if kind is Kind.ROWS and function.attr in _ELEMENTWISE:
            return self._together(function.value, *given)
        flat = function.attr in ("view", "reshape") and len(node.args) == 2 and not node.keywords
        if kind is Kind.ROWS and flat and ast.unparse(node.args[0]) == "-1":
            self._same(node.args[1], node.args[1])
            return Kind.ROWS
        raise Declined(f"{ast.unparse(node)} may not treat each row alone")

    def _parts(self, node: ast.expr) -> bool:
        """Whether an expression cuts rows, all at the same places: ``rows.chunk(2, dim=-1)``."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return False
        given = [*map(ast.unparse, node.args[1:]), *map(ast.unparse, node.keywords)]
        if node.func.attr not in ("chunk", "split") or given not in (["-1"], ["dim=-1"]):
            return False
        if not node.args or self.kind(node.args[0]) is not Kind.SHARED:
            return False
        return self.kind(node.func.value) is Kind.ROWS

    def _layer(self, node: ast.Call, given: list[ast.expr]) -> Kind:
        """``self.layer(rows)``, where the class shows what the layer is."""
        kinds = [self.kind(item) for item in given]
        if Kind.WEIGHT in kinds or Kind.TURNED in kinds:
            return self._module(node, kinds)
        made = self._made(ast.unparse(node.func))
        # A table of activations, by name: ACT2FN[config.hidden_act].
        looked_up = all(isinstance(value, ast.Subscript) for value in made)
        known = all(self._activation(value) for value in made)
        reason = f"nothing shows that {ast.unparse(node.func)} treats each row alone"
        self.proposal.need("rows-alone", bool(made) and (known or looked_up), reason)
        if kinds != [Kind.ROWS]:
            raise Declined(f"{ast.unparse(node.func)} gets more than rows")
        return Kind.ROWS

    def _module(self, node: ast.Call, kinds: list[Kind]) -> Kind:
        """``self.layer(rows, weight)`` of a module of this file: its method is followed, and gets
        the sizes as well.
        """
        tree = self.proposal.source.tree
        owner, method = _forward(tree, self._made(ast.unparse(node.func)))
        names = [item.arg for item in parameters(method)][1:]
        plain = not node.keywords and not method.args.defaults and not method.args.kwonlyargs
        starred = method.args.vararg or method.args.kwarg or method.decorator_list
        if not plain or starred or len(names) != len(kinds):
            raise Declined(f"{owner.name} takes more than rows and matrices")
        calls = [ast.unparse(it.func) for it in all_nodes(tree) if isinstance(it, ast.Call)]
        alone = calls.count(ast.unparse(node.func)) == 1 and _made_once(tree, owner.name)
        self.proposal.need("only-call", alone, f"{owner.name} is used elsewhere, too")
        inner = replace(self.proposal, path=[tree, owner, method])
        bound = {it.id for it in own_nodes(method) if isinstance(it, ast.Name) and _stored(it)}
        follow = RowWise(inner, dict(zip(names, kinds, strict=True)), bound, self._sizes)
        if inner.names.taken(self._sizes):
            raise Declined(f"{self._sizes} means something else in {owner.name}")
        follow.follow_function(method)
        self.inner.append((method, follow))
        last = self.proposal.source.span(node.args[-1])[1]
        self._edits.append(Change(last, last, f", {self._sizes}"))
        return Kind.ROWS

    def follow_function(self, function: ast.FunctionDef) -> None:
        """Follow assignments and the result."""
        documented = ast.get_docstring(function, clean=False) is not None
        *body, last = function.body[1:] if documented else function.body
        for statement in body:
            if not isinstance(statement, ast.Assign):
                raise Declined(f"{function.name} does more than compute rows")
            self.assign(statement)
        if not isinstance(last, ast.Return) or last.value is None:
            raise Declined(f"{function.name} does more than compute rows")
        self.rows(last.value)

    def _activation(self, value: ast.expr) -> bool:
        """``nn.SiLU()`` or ``F.silu``."""
        if isinstance(value, ast.Call):
            return self.proposal.names.callee(value) in _ACTIVATIONS
        return self.proposal.names.qualified(value) in _FUNCTIONS

    def _made(self, attribute: str) -> list[ast.expr]:
        """What the class assigns to an attribute."""
        owner = next(it for it in reversed(self.proposal.path) if isinstance(it, ast.ClassDef))
        return [
            item.value
            for item in ast.walk(owner)
            if isinstance(item, ast.Assign)
            and any(ast.unparse(target) == attribute for target in item.targets)
        ]


def _keeps_rows(index: ast.expr) -> bool:
    """``None`` or ``:`` behind the first index."""
    if isinstance(index, ast.Slice):
        return index.lower is index.upper is index.step is None
    return isinstance(index, ast.Constant) and index.value is None


def _turns(method: str, given: list[ast.expr]) -> bool:
    """Whether a method transposes a matrix."""
    if method == "t":
        return not given
    pairs = (["0", "1"], ["1", "0"], ["-1", "-2"], ["-2", "-1"])
    return method == "transpose" and [ast.unparse(item) for item in given] in pairs


def _made_once(tree: ast.Module, name: str) -> bool:
    """Whether a class is only asked for by ``isinstance``, but for one call."""
    above = parents(tree)
    users = [above[node] for node in loads(tree, name)]
    made = [it for it in users if isinstance(it, ast.Call) and dotted(it.func) == name]
    others = [it for it in users if it not in made]
    return len(made) == 1 and all(
        isinstance(it, ast.Call) and dotted(it.func) == "isinstance" for it in others
    )


def _stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _forward(tree: ast.Module, made: list[ast.expr]) -> tuple[ast.ClassDef, ast.FunctionDef]:
    """The class in the file that an attribute is made of, and what a call of it runs."""
    name = dotted(made[0].func) if len(made) == 1 and isinstance(made[0], ast.Call) else None
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef) and owner.name == name:
            for method in owner.body:
                if isinstance(method, ast.FunctionDef) and method.name == "forward":
                    return owner, method
    raise Declined("the matrix of the group goes into a module that is not seen here")
