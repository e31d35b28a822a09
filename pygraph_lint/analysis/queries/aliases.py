"""Aliases: who else may hold a tensor that a name holds."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.queries.interface import Queries
from pygraph_lint.analysis.queries.side_effects import PURE_METHODS
from pygraph_lint.analysis.syntax.nodes import receiver


def is_unaliased(ask: Queries, name: ast.Name) -> bool:
    """Whether a name holds a tensor that nothing else can refer to: the result of arithmetic or of
    an operation that always makes a new one, which was not handed on before.
    """
    for definition in ask.definitions.reaching(name):
        if definition.value is None or not makes_new(ask, definition.value):
            return False
        for use in ask.uses(definition):
            if use is not name and _may_precede(ask, use, name) and _hands_on(ask, use):
                return False
    return True


def makes_new(ask: Queries, value: ast.expr) -> bool:
    """Whether an expression is a tensor that nothing else holds: not its own operand (``+x``), and
    not what a layer gave that is called like a method of a tensor (``self.norm(x)``).
    """
    if isinstance(value, ast.UnaryOp):
        return not isinstance(value.op, (ast.UAdd, ast.Not)) and ask.is_tensor(value)
    if isinstance(value, (ast.BinOp, ast.Compare)):
        return ask.is_tensor(value)
    if not isinstance(value, ast.Call):
        return False
    name = ask.callee(value)
    if name is not None:
        last = name.rpartition(".")[2]
        return name.startswith("torch.") and last in _NEW and ask.is_tensor(value)
    if ask.view.closed and ask.known(value).evidence in _LAYERS:
        return True
    base = receiver(value, _NEW)
    return base is not None and ask.is_tensor(base) and ask.is_tensor(value)


def _may_precede(ask: Queries, use: ast.Name, name: ast.Name) -> bool:
    return not ask.runs_before(name, use) or _in_loop(ask, name)


def _in_loop(ask: Queries, node: ast.AST) -> bool:
    scope = ask.scope(node)
    loops = (ast.For, ast.AsyncFor, ast.While)
    for each in ask.path(node):
        if each is scope:
            return False
        if isinstance(each, loops):
            return True
    return False


def _hands_on(ask: Queries, use: ast.Name) -> bool:
    """Whether a read gives the object to something that may keep it."""
    parent = ask.parent(use)
    if isinstance(parent, ast.UnaryOp):
        return isinstance(parent.op, ast.UAdd)
    if isinstance(parent, (ast.BinOp, ast.Compare)):
        return False
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _ASKED and parent.attr not in _NEW
    if isinstance(parent, ast.Call) and use in parent.args:
        name = ask.callee(parent) or ""
        return not name.startswith("torch.") or name.rpartition(".")[2] not in _NEW
    return True


# Layers that never give their input back, where nobody replaces them.
_LAYERS = frozenset(
    f"returned by a nn.{name} layer"
    for name in ("LayerNorm", "RMSNorm", "GroupNorm", "Linear", "Conv1d", "Conv2d", "Conv3d")
)
# What is asked of a tensor without keeping it, and operations whose result never shares memory.
_ASKED = frozenset(("shape", "device", "dtype", "ndim", "size", "dim", "numel", "is_cuda"))
_NEW = PURE_METHODS & frozenset(
    (
        *("abs", "neg", "exp", "log", "sqrt", "rsqrt", "sigmoid", "tanh", "relu", "sign", "round"),
        *("add", "sub", "mul", "div", "pow", "matmul", "bmm", "mm", "softmax", "log_softmax"),
        *("sum", "mean", "max", "min", "amax", "amin", "prod", "std", "var", "norm", "cumsum"),
        *("clone", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "any", "all"),
        *("logical_not", "logical_and", "logical_or", "argmax", "argmin", "clamp", "masked_fill"),
        *("index_select", "gather", "where", "new_zeros", "new_ones", "new_full", "new_empty"),
    )
) | frozenset(
    (
        *("zeros", "ones", "empty", "full", "rand", "randn", "randint", "arange", "linspace"),
        *("zeros_like", "ones_like", "empty_like", "full_like", "cat", "stack", "where"),
        *("layer_norm", "linear", "conv1d", "conv2d", "gelu", "silu"),
    )
)
