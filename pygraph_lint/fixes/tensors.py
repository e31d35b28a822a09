"""Expressions that are visibly tensors, and expressions that are harmless to compute."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads, parameters, parents, stores
from pygraph_lint.fixes.proposal import Proposal
from pygraph_lint.fixes.source import FUNCTIONS

# Methods that return a new tensor or a view and change nothing.
METHODS = frozenset(
    (
        *("abs", "add", "sub", "mul", "div", "pow", "exp", "log", "sqrt", "rsqrt", "neg", "sign"),
        *("clamp", "clip", "clamp_min", "clamp_max", "relu", "sigmoid", "tanh", "softmax"),
        *("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "norm", "cumsum"),
        *("float", "half", "double", "long", "int", "bool", "to", "type_as", "clone", "detach"),
        *("view", "reshape", "unsqueeze", "squeeze", "transpose", "permute", "expand", "expand_as"),
        *("repeat", "flatten", "t", "contiguous", "masked_fill", "where", "any", "all", "eq", "ne"),
        *("lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "logical_not", "flip", "roll"),
        *("new_zeros", "new_ones", "new_full", "new_tensor", "size", "dim", "numel"),
    )
)
# Functions of torch with an effect, or whose result is no tensor.
_NOT_PURE = ("torch.manual_seed", "torch.rand", "torch.normal", "torch.bernoulli", "torch.multi")


def pure_expression(proposal: Proposal, node: ast.expr) -> bool:
    """Whether an expression only computes: names, arithmetic, indexing, torch functions, methods
    above.
    """
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and not _pure_call(proposal, inner):
            return False
        if isinstance(inner, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda)):
            return False
    return True


def _pure_call(proposal: Proposal, call: ast.Call) -> bool:
    name = proposal.names.callee(call)
    if name is not None:
        inside = name.startswith("torch.") and not name.startswith(_NOT_PURE)
        return inside and "dropout" not in name and not name.endswith("_") and _torch_level(name)
    return isinstance(call.func, ast.Attribute) and call.func.attr in METHODS


def _torch_level(name: str) -> bool:
    """``torch.f`` or ``torch.nn.functional.f``: what deeper modules do is not known."""
    return name.count(".") == 1 or name.startswith("torch.nn.functional.")


def visibly_tensor(proposal: Proposal, node: ast.expr, known: set[str]) -> bool:
    """Whether an expression is a tensor: a known name, arithmetic with one, a call of torch, a
    method of one.
    """
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node) in known
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return any(visibly_tensor(proposal, side, known) for side in sides)
    if isinstance(node, ast.UnaryOp):
        return visibly_tensor(proposal, node.operand, known)
    if isinstance(node, ast.Call):
        name = proposal.names.callee(node)
        if name is not None:
            tensor = ("torch.finfo", "torch.iinfo", "torch.device", "torch.is_", "torch.Size")
            return name.startswith("torch.") and not name.startswith(tensor)
        if not isinstance(node.func, ast.Attribute) or node.func.attr in ("size", "dim", "numel"):
            return False
        return visibly_tensor(proposal, node.func.value, known)
    return False


# What only tensors are asked for; numbers have none of these.
_EVIDENCE = METHODS | {"shape", "device", "dtype", "ndim", "is_cuda", "index_select", "gather"}


def used_as_tensor(proposal: Proposal, node: ast.expr) -> bool:
    """Whether the function, or for ``self.x`` the class, shows that a name holds a tensor.

    A parameter's annotation says so, an attribute only tensors have is asked for, or the class
    makes it a parameter or a buffer.
    """
    wanted = ast.unparse(node)
    kind = ast.ClassDef if wanted.startswith("self.") else FUNCTIONS
    scope = next((item for item in reversed(proposal.path) if isinstance(item, kind)), None)
    return scope is not None and shown_in(scope, wanted)


def shown_in(scope: ast.AST, wanted: str) -> bool:
    """Whether a function or class shows that ``wanted`` holds a tensor; see above."""
    if isinstance(scope, FUNCTIONS):
        for argument in parameters(scope):
            annotation = argument.annotation if argument.arg == wanted else None
            if annotation is not None and "Tensor" in ast.unparse(annotation):
                return True
    return any(_shows(inner, wanted) for inner in ast.walk(scope))


def _shows(node: ast.AST, wanted: str) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in _EVIDENCE and ast.unparse(node.value) == wanted
    if isinstance(node, ast.Assign):
        made = ast.unparse(node.value.func) if isinstance(node.value, ast.Call) else ""
        parameter = made.rpartition(".")[2] == "Parameter"
        return parameter and any(ast.unparse(target) == wanted for target in node.targets)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.args[0] if node.args else None
        registered = node.func.attr in ("register_buffer", "register_parameter")
        return registered and isinstance(name, ast.Constant) and wanted == f"self.{name.value!s}"
    return False


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


def joins_others(proposal: Proposal, node: ast.expr, deep: bool = True) -> bool:
    """Whether a new tensor only goes, at once or under a local name, into operations with other
    tensors.

    There is then nobody who could want it on the host: no random draw from it, no size, no list.
    """
    function = proposal.function
    if function is None:
        return False
    above = parents(function)
    child: ast.AST = node
    parent = above.get(child)
    while isinstance(parent, (ast.Attribute, ast.Call, ast.List, ast.Tuple, ast.UnaryOp)):
        if isinstance(parent, ast.Attribute) and parent.attr not in METHODS - _NUMBERS:
            return False
        if isinstance(parent, ast.Call) and child is not parent.func:
            return proposal.names.callee(parent) in TOGETHER
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
    return bool(reads) and all(joins_others(proposal, read, deep=False) for read in reads)


_NUMBERS = frozenset(("size", "dim", "numel"))
