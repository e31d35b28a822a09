"""Where a number may stand in for a 0-d tensor that holds it."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads
from pygraph_lint.fixes.number_kinds import NUMBERS, ROUNDED, TENSOR, Kinds
from pygraph_lint.fixes.source import FUNCTIONS

_BUILTINS = frozenset(("max", "min", "abs", "int", "float", "range"))
# Functions of torch that take numbers there: the place of the argument, and its name.
_TAKE_NUMBERS = {
    "torch.nn.functional.pad": (1, "pad"),
    "torch.nn.functional.interpolate": (1, "size"),
    "torch.full": (0, "size"),
}
_FACTORIES = frozenset(
    f"torch.{name}" for name in ("arange", "zeros", "ones", "empty", "rand", "randn")
)
# Methods of tensors whose arguments are all numbers.
_SIZED_METHODS = frozenset(("view", "reshape", "expand", "repeat", "narrow", "unfold", "split"))
_NUMERIC = frozenset(("int", "float"))
_HOLDING = frozenset(
    ("tuple", "Tuple", "list", "List", "Sequence", "Iterable", "Optional", "Union", "typing")
)


class Uses:
    """Looks at the places where numbers stand; ``called`` are the functions that get some."""

    def __init__(self, tree: ast.AST, above: dict[ast.AST, ast.AST]) -> None:
        self._tree = tree
        self._above = above
        self.called: set[ast.FunctionDef] = set()

    def fits(self, node: ast.AST, kinds: Kinds, converted: set[ast.AST]) -> bool:
        """Whether a number may stand where ``node`` does; ``converted`` are the expressions that
        become numbers, each of which is asked for itself.
        """
        parent = self._above[node]
        if parent in converted:
            return True
        if isinstance(parent, (ast.BinOp, ast.Slice, ast.UnaryOp)):
            return True
        if isinstance(parent, (ast.If, ast.While, ast.Assert, ast.IfExp)):
            return parent.test is node
        if isinstance(parent, ast.Compare):
            return self._compared(parent, kinds)
        if isinstance(parent, (ast.Tuple, ast.List)):
            node, parent = parent, self._above[parent]
        if isinstance(parent, ast.keyword):
            node, parent = parent, self._above[parent]
        return isinstance(parent, ast.Call) and self._handed(node, parent, kinds)

    def _compared(self, node: ast.Compare, kinds: Kinds) -> bool:
        """With a tensor the result is a tensor as before; a truth value only decides a branch."""
        identity = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
        if any(isinstance(operator, identity) for operator in node.ops):
            return False
        if any(kinds.of(side) == TENSOR for side in (node.left, *node.comparators)):
            return len(node.ops) == 1
        above = self._above[node]
        while isinstance(above, ast.BoolOp) or (
            isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
        ):
            above = self._above[above]
        return isinstance(above, (ast.If, ast.While, ast.Assert, ast.IfExp))

    def _handed(self, node: ast.AST, call: ast.AST, kinds: Kinds) -> bool:
        """Whether an argument goes where numbers are wanted."""
        if not isinstance(call, ast.Call) or node is call.func:
            return False
        name = kinds.callee(call)
        if name in ROUNDED or name in _FACTORIES:
            return name in _FACTORIES and not isinstance(node, ast.keyword)
        if name.startswith("math."):
            return True
        place, keyword = _TAKE_NUMBERS.get(name, (-1, ""))
        if isinstance(node, ast.keyword):
            wanted = node.arg == keyword
        else:
            wanted = node in call.args and call.args.index(node) == place
        if wanted:
            return True
        function = call.func
        if isinstance(function, ast.Name) and function.id in _BUILTINS:
            return function.id not in ("max", "min", "abs") or kinds.of(call) in NUMBERS
        if isinstance(function, ast.Attribute) and function.attr in _SIZED_METHODS:
            return True
        if isinstance(function, ast.Attribute) and function.attr == "append":
            return self._collected(function.value, kinds)
        return self._declared(node, call)

    def _collected(self, holder: ast.expr, kinds: Kinds) -> bool:
        """Whether a local list is only filled, and then goes where numbers are wanted."""
        if not isinstance(holder, ast.Name):
            return False
        scope = self._above[holder]
        while not isinstance(scope, FUNCTIONS):
            if scope not in self._above:
                return False
            scope = self._above[scope]
        return all(self._filled(read, kinds) for read in loads(scope, holder.id))

    def _filled(self, read: ast.Name, kinds: Kinds) -> bool:
        parent = self._above[read]
        if isinstance(parent, ast.Attribute):
            return parent.attr == "append"
        if isinstance(parent, ast.keyword):
            call = self._above[parent]
            return isinstance(call, ast.Call) and self._declared(parent, call)
        return isinstance(parent, ast.Call) and self._declared(read, parent)

    def _declared(self, node: ast.AST, call: ast.Call) -> bool:
        """Whether the parameter that an argument goes to is annotated as numbers."""
        found = self._callee(call.func)
        if found is None:
            return False
        function, bound = found
        arguments = [*function.args.posonlyargs, *function.args.args][bound:]
        if isinstance(node, ast.keyword):
            every = [*arguments, *function.args.kwonlyargs]
            parameter = next((item for item in every if item.arg == node.arg), None)
        else:
            place = next((at for at, item in enumerate(call.args) if item is node), len(arguments))
            starred = any(isinstance(item, ast.Starred) for item in call.args)
            parameter = arguments[place] if place < len(arguments) and not starred else None
        self.called.add(function)
        kind = parameter.annotation if parameter is not None else None
        return kind is not None and _annotated_as_numbers(kind)

    def _callee(self, node: ast.expr) -> tuple[ast.FunctionDef, int] | None:
        """The function of this file that is called, and how many parameters the call binds
        itself.
        """
        if isinstance(node, ast.Name):
            found = _defined(self._tree, node.id)
            if isinstance(found, ast.ClassDef):
                made = _defined(found, "__init__")
                return (made, 1) if isinstance(made, ast.FunctionDef) else None
            return (found, 0) if isinstance(found, ast.FunctionDef) else None
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return None
        owner: ast.AST | None = node
        while owner is not None and not isinstance(owner, ast.ClassDef):
            owner = self._above.get(owner)
        if owner is None or node.value.id != "self":
            return None
        method = _defined(owner, node.attr)
        if not isinstance(method, ast.FunctionDef):
            return None
        static = any(ast.unparse(item) == "staticmethod" for item in method.decorator_list)
        return method, 0 if static else 1


def _defined(scope: ast.AST, name: str) -> ast.AST | None:
    """The only function or class of that name in a module's or class's body."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    body = getattr(scope, "body", [])
    found = [item for item in body if isinstance(item, kinds) and item.name == name]
    return found[0] if len(found) == 1 else None


def _annotated_as_numbers(node: ast.expr) -> bool:
    """Whether an annotation speaks of numbers alone: ``int``, ``tuple[int, int]``."""
    names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    return bool(names & _NUMERIC) and names <= _NUMERIC | _HOLDING
