"""Expressions that are visibly tensors, and expressions that are harmless to compute."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.proposal import Proposal

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
