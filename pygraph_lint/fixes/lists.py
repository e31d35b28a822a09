"""Python lists and tuples of numbers, proven from one file's syntax tree.

A parameter is followed to the calls in the file; what a private function gives back is followed
to what it returns.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import NamedTuple

from pygraph_lint.fixes.names import (
    all_nodes,
    assigned_values,
    dotted,
    own_nodes,
    parameters,
    parents,
    stores,
)
from pygraph_lint.fixes.source import FUNCTIONS

_DEPTH = 6
_Plain = ast.FunctionDef | ast.AsyncFunctionDef
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)
_ARRAYS = ("np", "numpy", "torch")
_NUMBERS_ONLY = (ast.Sub, ast.Div, ast.FloorDiv)


def is_size(function: ast.AST, node: ast.expr) -> bool:
    """Whether an expression is a whole number that is not negative: a size, a length, a sum or
    product of such.
    """
    if isinstance(node, ast.Constant):
        return type(node.value) is int and node.value >= 0
    if isinstance(node, ast.Name):
        values = assigned_values(function, node.id)
        return bool(values) and all(
            not _mentions(value, node.id) and is_size(function, value) for value in values or ()
        )
    if isinstance(node, ast.BinOp):
        grows = isinstance(node.op, (ast.Add, ast.Mult, ast.FloorDiv))
        return grows and is_size(function, node.left) and is_size(function, node.right)
    if isinstance(node, ast.Subscript):
        return is_shape(node.value) and not isinstance(node.slice, ast.Slice)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name):
            return node.func.id == "len"
        return isinstance(node.func, ast.Attribute) and node.func.attr == "size" and bool(node.args)
    return False


def without_copy(node: ast.expr) -> ast.expr:
    """``sizes`` for ``list(sizes)`` and ``tuple(sizes)``."""
    copied = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("list", "tuple")
        and len(node.args) == 1
        and not node.keywords
        and not isinstance(node.args[0], ast.Starred)
    )
    return node.args[0] if copied else node  # type: ignore[attr-defined]


def _mentions(node: ast.expr, name: str) -> bool:
    return any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node))


def is_shape(node: ast.expr) -> bool:
    """``x.shape`` or ``x.size()``, but not an attribute of the object itself."""
    if isinstance(node, ast.Call):
        function = node.func
        return isinstance(function, ast.Attribute) and function.attr == "size" and not node.args
    own = isinstance(node, ast.Attribute) and dotted(node.value) == "self"
    return isinstance(node, ast.Attribute) and node.attr == "shape" and not own


class Lists:
    """What is known about the lists of a file.

    ``others_may_call`` says whether a parameter of a public function was followed: other files may
    give it something else. ``own`` are the file's functions and classes that no other file means.
    """

    def __init__(self, tree: ast.Module, own: frozenset[str] = frozenset()) -> None:
        self.tree = tree
        self.own = own
        self.others_may_call = False

    def holds_numbers(self, function: ast.AST, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a value is a list or tuple of single numbers."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return self.holds_numbers(function, node.value, depth)
        if isinstance(node, (ast.List, ast.Tuple)):
            return all(_is_number(function, item) for item in node.elts)
        if isinstance(node, ast.Name):
            return self._name_holds(function, node.id, depth, "numbers")
        if is_shape(node):
            return True
        copied = without_copy(node)
        if copied is not node:
            return self.holds_numbers(function, copied, depth)
        return isinstance(node, ast.Call) and self._gives_numbers(node, depth)

    def parameter_holds_numbers(self, function: _Plain, name: str) -> bool:
        """Whether all that this file gives for a parameter is a list or tuple of numbers."""
        given = self._given(function, name)
        return bool(given) and all(
            self.holds_numbers(place, value, _DEPTH) for place, value in given or ()
        )

    def _gives_numbers(self, call: ast.Call, depth: int) -> bool:
        """Whether the functions of this file that a call may mean return lists of numbers."""
        last = (dotted(call.func) or "").rpartition(".")[2]
        makers = _index(self.tree).functions.get(last, [])
        if not makers or depth == 0:
            return False
        if not all(map(self._is_own, makers)):
            self.others_may_call = True
        return all(self._maker_gives_numbers(maker, depth) for maker in makers)

    def _maker_gives_numbers(self, maker: ast.FunctionDef, depth: int) -> bool:
        nodes = list(own_nodes(maker))
        results = [node.value for node in nodes if isinstance(node, ast.Return)]
        if not results or any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in nodes):
            return False
        return all(
            value is not None and self.holds_numbers(maker, value, depth - 1) for value in results
        )

    def is_filled(self, function: ast.AST, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether a list or tuple certainly has elements."""
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return _takes_some(function, node.slice) and self.is_filled(function, node.value, depth)
        if isinstance(node, (ast.List, ast.Tuple)):
            return bool(node.elts) and not isinstance(node.elts[0], ast.Starred)
        return isinstance(node, ast.Name) and self._name_holds(function, node.id, depth, "filled")

    def _name_holds(self, function: ast.AST, name: str, depth: int, what: str) -> bool:
        """What all values of a name have in common; ``what`` is ``numbers`` or ``filled``.

        None is no list either, and whoever takes it for one fails.
        """
        if depth == 0 or not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return False
        given = self._values(function, name)
        if given is None:
            return False
        lists = [one for one in given if not _is_none(one[1])]
        if what == "numbers" and not _only_numbers(function, name):
            return False
        if what == "filled" and [value for _, value in lists if _is_empty(value)]:
            return len(given) == 1 and _fills(function.body, name)
        check = self.is_filled if what == "filled" else self.holds_numbers
        return bool(lists) and all(check(place, value, depth - 1) for place, value in lists)

    def _values(self, function: _Plain, name: str) -> list[tuple[ast.AST, ast.expr]] | None:
        """The values a name is bound to, each with the function it is written in; None where not
        all are known.
        """
        found: list[tuple[ast.AST, ast.expr]] = []
        for bound in stores(function, name):
            if isinstance(bound, ast.arg):
                more = self._given(function, name)
            else:
                more = self._assigned(function, bound)
            if more is None:
                return None
            found += more
        return found

    def _given(self, function: _Plain, name: str) -> list[tuple[ast.AST, ast.expr]] | None:
        """What a function is given for a parameter in this file."""
        if not self._is_own(function):
            self.others_may_call = True
        names = [item.arg for item in parameters(function)]
        given: list[tuple[ast.AST, ast.expr]] = []
        for caller, call in self._calls(function.name):
            if call is None or any(isinstance(item, ast.Starred) for item in call.args):
                return None
            bound = isinstance(call.func, ast.Attribute) and names[:1] == ["self"]
            by_position = dict(zip(names[bound:], call.args, strict=False))
            by_name = {item.arg: item.value for item in call.keywords}
            value = by_name.get(name, by_position.get(name))
            if value is None or None in by_name:
                return None
            given.append((caller, value))
        return given

    def _assigned(self, function: _Plain, target: ast.AST) -> list[tuple[ast.AST, ast.expr]] | None:
        """What one binding of a name binds: a value, or a part of what a method returns."""
        for node in own_nodes(function):
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            if node.targets[0] is target:
                return [(function, node.value)]
            places = node.targets[0]
            if isinstance(places, ast.Tuple) and target in places.elts:
                position = [item is target for item in places.elts].index(True)
                return self._returned(node.value, position, len(places.elts))
        return None

    def _returned(
        self, call: ast.expr, position: int, count: int
    ) -> list[tuple[ast.AST, ast.expr]] | None:
        """One of the values that a private function of this file returns."""
        name = dotted(call.func) if isinstance(call, ast.Call) else None
        last = (name or "").rpartition(".")[2]
        makers = _index(self.tree).functions.get(last, [])
        found: list[tuple[ast.AST, ast.expr]] = []
        for maker in makers:
            for node in own_nodes(maker):
                if not isinstance(node, ast.Return):
                    continue
                if not isinstance(node.value, ast.Tuple) or len(node.value.elts) != count:
                    return None
                found.append((maker, node.value.elts[position]))
        return found if last.startswith("_") else None

    def _is_own(self, function: _Plain) -> bool:
        """Whether only this file calls a function: by its name, or by the name it stands in."""
        if function.name.startswith("_"):
            return True
        above = parents(self.tree)
        outer: ast.AST = function
        while not isinstance(above.get(outer), (ast.Module, type(None))):
            outer = above[outer]
        return getattr(outer, "name", "") in self.own

    def _calls(self, name: str) -> list[tuple[ast.AST, ast.Call | None]]:
        """Where a function is called, with the function around; None where it is only named."""
        above = parents(self.tree)
        found: list[tuple[ast.AST, ast.Call | None]] = []
        for node in _index(self.tree).named.get(name, ()):
            parent = above.get(node)
            call = parent if isinstance(parent, ast.Call) and parent.func is node else None
            caller: ast.AST = node
            while caller in above and not isinstance(caller, FUNCTIONS):
                caller = above[caller]
            found.append((caller, call))
        return found


class _Index(NamedTuple):
    """The functions of a file by their names, and where names and attributes are written."""

    functions: dict[str, list[ast.FunctionDef]]
    named: dict[str, list[ast.expr]]


@lru_cache(maxsize=2)
def _index(tree: ast.Module) -> _Index:
    index = _Index({}, {})
    for node in all_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            index.functions.setdefault(node.name, []).append(node)
        elif isinstance(node, (ast.Attribute, ast.Name)):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            index.named.setdefault(name, []).append(node)
    return index


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_empty(node: ast.expr) -> bool:
    return isinstance(node, (ast.List, ast.Tuple)) and not node.elts


def _is_number(function: ast.AST, node: ast.expr) -> bool:
    """Whether an element of a list is a single number."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, _ARITHMETIC) and all(
            _is_number(function, side) for side in (node.left, node.right)
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id == "int"
    if isinstance(node, ast.Name) and _is_operand(function, node.id):
        return True
    return is_size(function, node)


def _is_operand(function: ast.AST, name: str) -> bool:
    """Whether a name is subtracted from, divided or so: no list or text is.

    An array is: what is seen to be one, or a tensor, is no single number.
    """
    return not _may_be_array(function, name) and any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, _NUMBERS_ONLY)
        and any(isinstance(side, ast.Name) and side.id == name for side in (node.left, node.right))
        for node in own_nodes(function)
    )


def _may_be_array(function: ast.AST, name: str) -> bool:
    """Whether a default, an annotation or a value of a name is more than a number written out."""
    values: list[ast.expr | None] = []
    if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        given = function.args
        placed = [*given.posonlyargs, *given.args]
        behind = placed[len(placed) - len(given.defaults) :]
        defaults = [*zip(behind, given.defaults, strict=True)]
        defaults += [
            (item, value)
            for item, value in zip(given.kwonlyargs, given.kw_defaults, strict=True)
            if value is not None
        ]
        values += [value for item, value in defaults if item.arg == name]
        hints = [item.annotation for item in parameters(function) if item.arg == name]
        if any(hint is not None and "int" not in _words(hint) for hint in hints):
            return True
    values += assigned_values(function, name) or ()
    return any(
        isinstance(node, ast.Call) and (dotted(node.func) or "").partition(".")[0] in _ARRAYS
        for value in values
        if value is not None
        for node in ast.walk(value)
    )


def _words(hint: ast.expr) -> list[str]:
    """The names in an annotation, which may be text."""
    return re.findall(r"\w+", ast.unparse(hint))


def _only_numbers(function: ast.AST, name: str) -> bool:
    """Whether a list is only indexed, asked, returned, passed on, or grows by single numbers."""
    above = parents(function)
    for node in own_nodes(function):
        if not isinstance(node, ast.Name) or node.id != name or not isinstance(node.ctx, ast.Load):
            continue
        parent = above.get(node)
        if isinstance(parent, ast.Attribute):
            call = above.get(parent)
            if parent.attr == "append" and isinstance(call, ast.Call):
                if not all(_is_number(function, item) for item in call.args):
                    return False
            elif parent.attr not in ("index", "count"):
                return False
        elif isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return False
    return True


def _fills(body: list[ast.stmt], name: str) -> bool:
    """Whether a list has got an element wherever a block ends."""
    for statement in body:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and dotted(call.func) == f"{name}.append":
            return True
        branches = [statement.body, statement.orelse] if isinstance(statement, ast.If) else []
        if branches and all(_fills(branch, name) for branch in branches):
            return True
        if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
            return False
    return False


def _takes_some(function: ast.AST, taken: ast.Slice) -> bool:
    """Whether a slice takes something of every list with elements: ``[: k + 1]``."""
    upper = taken.upper
    if taken.lower is not None or taken.step is not None:
        return False
    if not (isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add)):
        return upper is None
    further = upper.right.value if isinstance(upper.right, ast.Constant) else None
    return type(further) is int and further > 0 and _is_position(function, upper.left)


def _is_position(function: ast.AST, node: ast.expr) -> bool:
    """Whether a value is a place in a list, found by ``index``."""
    values = assigned_values(function, node.id) if isinstance(node, ast.Name) else None
    return bool(values) and all(
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "index"
        for value in values or ()
    )
