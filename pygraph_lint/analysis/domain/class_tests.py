"""Tests of the class of a value: ``isinstance(x, list)``, ``type(x) in (list, tuple)``."""

from __future__ import annotations

import ast
from collections.abc import Callable

from pygraph_lint.analysis.domain import ops
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.syntax.nodes import compared

Resolve = Callable[[ast.expr], "str | None"]
_CLASS_KINDS: dict[str, int] = {
    "builtins.int": v.NUMBER,
    "builtins.float": v.NUMBER,
    "builtins.bool": v.NUMBER,
    "builtins.complex": v.NUMBER,
    **dict.fromkeys(("numbers.Number", "numbers.Real", "numbers.Integral"), v.NUMBER),
    **dict.fromkeys(("numpy.number", "numpy.integer", "numpy.floating", "numpy.generic"), v.NUMBER),
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
DISPLAYS = (ast.Tuple, ast.List, ast.Set)


def kind_of_class(name: str) -> int:
    """The kind of the objects of a class; 0 for one that is not known."""
    return v.TENSOR if name in ops.TENSOR_TYPES else _CLASS_KINDS.get(name, 0)


def class_test(resolve: Resolve, node: ast.expr) -> tuple[ast.expr, int, bool] | None:
    """What a condition asks the class of, the kinds that it asks for, and whether it holds for
    these; None for other conditions, and where a class is not known.
    """
    exact = exact_class(resolve, node)
    if exact is not None:
        of, classes, positive = exact
        kinds = _kinds(resolve, classes)
        return (of, kinds, positive) if kinds else None
    if not isinstance(node, ast.Call) or not node.args:
        return None
    name = resolve(node.func)
    if name == "torch.is_tensor":
        return node.args[0], v.TENSOR, True
    kinds = _kinds(resolve, node.args[-1]) if name == "builtins.isinstance" else 0
    return (node.args[0], kinds, True) if kinds else None


def exact_class(resolve: Resolve, node: ast.expr) -> tuple[ast.expr, ast.expr, bool] | None:
    """What ``type(x) is C`` asks for, the class or classes, and whether it asks that it is so."""
    call, operator, classes = compared(node) or (node, None, node)
    positive = isinstance(operator, (ast.Is, ast.Eq, ast.In))
    if not positive and not isinstance(operator, (ast.IsNot, ast.NotEq, ast.NotIn)):
        return None
    if not isinstance(call, ast.Call) or len(call.args) != 1:
        return None
    of_type = resolve(call.func) == "builtins.type"
    return (call.args[0], classes, positive) if of_type else None


def _kinds(resolve: Resolve, classes: ast.expr) -> int:
    """The kinds of some classes; 0 where one of them is not known."""
    kinds = 0
    for each in classes.elts if isinstance(classes, DISPLAYS) else [classes]:
        kind = kind_of_class(resolve(each) or "")
        if not kind:
            return 0
        kinds |= kind
    return kinds
