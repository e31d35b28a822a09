"""Whether a new tensor only goes into operations with others."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads, parents, stores
from pygraph_lint.fixes.site import Site

# Methods that return a new tensor or a view and change nothing.
_METHODS = frozenset(
    (
        *("abs", "add", "sub", "mul", "div", "pow", "exp", "log", "sqrt", "rsqrt", "neg", "sign"),
        *("clamp", "clip", "clamp_min", "clamp_max", "relu", "sigmoid", "tanh", "softmax"),
        *("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "norm", "cumsum"),
        *("float", "half", "double", "long", "int", "bool", "to", "type_as", "clone", "detach"),
        *("view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "expand", "expand_as"),
        *("repeat", "flatten", "t", "contiguous", "masked_fill", "where", "any", "all", "eq", "ne"),
        *("lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_not", "flip", "roll"),
        *("new_zeros", "new_ones", "new_full", "new_tensor"),
    )
)
# Functions that take tensors elementwise or joined, and return one on the device of the others.
TOGETHER = frozenset(
    f"torch.{name}"
    for name in (
        *("add", "sub", "mul", "div", "true_divide", "pow", "fmod", "remainder", "atan2"),
        *("maximum", "minimum", "max", "min", "where", "clamp", "logaddexp", "lerp"),
        *("eq", "ne", "lt", "le", "gt", "ge", "isin", "cat", "concat", "stack"),
        *("logical_and", "logical_or", "matmul", "bmm", "einsum", "outer", "dot"),
    )
)


def joins_others(site: Site, node: ast.expr, deep: bool = True) -> bool:
    """Whether a new tensor only goes, at once or under a local name, into operations with other
    tensors.

    There is then nobody who could want it on the host: no random draw from it, no size, no list.
    """
    function = site.function
    if function is None:
        return False
    above = parents(function)
    child: ast.AST = node
    parent = above.get(child)
    while isinstance(parent, (ast.Attribute, ast.Call, ast.List, ast.Tuple, ast.UnaryOp)):
        if isinstance(parent, ast.Attribute) and parent.attr not in _METHODS:
            return False
        if isinstance(parent, ast.Call) and child is not parent.func:
            return site.ask.callee(parent) in TOGETHER
        child, parent = parent, above.get(parent)
    if isinstance(parent, ast.BinOp):
        return True
    if isinstance(parent, ast.Compare):
        return all(not isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in parent.ops)
    if isinstance(parent, ast.Subscript):
        return parent.slice is child
    named = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if not deep or not isinstance(named, ast.Name) or len(stores(function, named.id)) != 1:
        return False
    reads = loads(function, named.id)
    return bool(reads) and all(joins_others(site, read, deep=False) for read in reads)
