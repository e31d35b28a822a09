"""Backward inference: what later uses of a variable say of the value that it was just given."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable

from pygraph_lint.analysis.domain import ops

# torch.<name> that takes a tensor first, and nothing else.
_OF_TENSORS = ops.TENSOR_METHODS - ops.OF_NUMBERS - ops.FACTORIES - set(ops.NOT_TENSORS)
_TESTS = frozenset(("isinstance", "hasattr", "type", "callable"))
Resolve = Callable[[ast.expr], str | None]


def is_of_tensors(method: str, call: ast.Call) -> bool:
    """Whether only a tensor has a method that is called like this."""
    first = call.args[0] if call.args else None
    if method == "backward":  # of a loss
        return first is None
    if first is not None and method in ops.WITHOUT_ARGUMENTS:
        return False
    plain = first is None or isinstance(first, (ast.Constant, ast.UnaryOp))
    return method in ops.CERTAIN_METHODS or (plain and method in ops.CERTAIN_OF_NUMBERS)


class TensorUses:
    """The uses of a function's variables that only tensors have, in the order of the text.

    ``resolve`` is not kept: it belongs to the run that holds this, and no collector runs meanwhile.
    """

    def __init__(self, nodes: Iterable[ast.AST], resolve: Resolve) -> None:
        """``nodes`` are those of the function itself, without those of functions inside."""
        self._bound: dict[str, list[int]] = defaultdict(list)
        self._shown: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._tested: set[str] = set()
        for node in nodes:
            if node.__class__ is ast.Name:
                if node.ctx.__class__ is ast.Store:
                    self._bound[node.id].append(node.lineno)
            elif node.__class__ is ast.Call:
                self._read_call(node, resolve)
        for lines in self._bound.values():
            lines.sort()
        for shown in self._shown.values():
            shown.sort()

    def tensor(self, name: str, line: int) -> str:
        """Why what the variable is bound to on ``line`` can only be a tensor; empty where nothing
        says so before it is bound again.
        """
        shown = self._shown.get(name)
        if not shown or name in self._tested:
            return ""
        bound = self._bound[name]
        place = bisect_right(bound, line)
        last = bound[place] if place < len(bound) else None
        for used, why in shown:
            if used > line and (last is None or used <= last):
                return why
        return ""

    def _read_call(self, node: ast.Call, resolve: Resolve) -> None:
        function = node.func
        first = node.args[0] if node.args else None
        if isinstance(function, ast.Name) and function.id in _TESTS:
            if isinstance(first, ast.Name):
                self._tested.add(first.id)
        elif not isinstance(function, ast.Attribute):
            return
        elif isinstance(function.value, ast.Name) and is_of_tensors(function.attr, node):
            name = function.value.id
            self._shown[name].append((node.lineno, f"only a tensor has .{function.attr}()"))
        elif isinstance(first, ast.Name):
            self._read_argument(first.id, function, resolve(function) or "")

    def _read_argument(self, name: str, function: ast.Attribute, callee: str) -> None:
        if callee == "torch.is_tensor":
            self._tested.add(name)
        elif (
            callee.startswith(ops.NAMESPACES_OF_TENSORS)
            or callee == "torch.autograd.grad"
            or (callee == f"torch.{function.attr}" and function.attr in _OF_TENSORS)
        ):
            self._shown[name].append((function.lineno, f"`{name}` is passed to {callee}"))
