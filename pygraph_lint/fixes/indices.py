"""Functions that only work out positions: indices, lengths and offsets from sizes."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.names import own_nodes
from pygraph_lint.fixes.site import Site

# What positions are made with. One of them has to be there.
_POSITIONS = frozenset(
    (
        *("arange", "meshgrid", "repeat_interleave", "cumsum", "nonzero", "argwhere", "unique"),
        *("unique_consecutive", "bincount", "argsort", "searchsorted", "bucketize", "tril_indices"),
        *("triu_indices", "combinations", "cartesian_prod"),
    )
)
# What else may be done: parts put together and laid out, and arithmetic of single elements.
_LIGHT = frozenset(
    (
        *("tensor", "as_tensor", "zeros", "ones", "full", "empty", "zeros_like", "ones_like"),
        *("full_like", "stack", "cat", "concat", "pad", "split", "split_with_sizes"),
        *("tensor_split", "chunk", "where", "isin", "Size"),
        *("view", "reshape", "expand", "repeat", "flatten", "unsqueeze", "squeeze", "transpose"),
        *("permute", "contiguous", "t", "to", "int", "long", "float", "bool", "type_as", "clone"),
        *("item", "tolist", "numel", "size", "dim", "sum", "prod", "max", "min", "any", "all"),
        *("abs", "floor", "ceil", "round", "clamp", "clip", "remainder", "add", "sub", "mul"),
        *("div", "floor_divide", "diff", "roll", "flip", "eq", "ne", "lt", "le", "gt", "ge"),
        *("is_tracing", "is_scripting", "is_tensor", "device", "masked_fill", "index_select"),
        *("append", "extend", "insert", "pop", "get", "items", "keys", "values", "index", "count"),
    )
)


def makes_positions(site: Site, function: ast.FunctionDef, depth: int = 2) -> bool:
    """Whether a function puts together indices or offsets, and does no other work on tensors: it
    calls no layer, no function of another file, nothing that was handed in.
    """
    nodes = own_nodes(function)
    stored = any(
        isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) for node in nodes
    )
    lazy = any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in nodes)
    products = any(
        isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) for node in nodes
    )
    if stored or lazy or products:
        return False
    names = [_light_call(site, node, depth) for node in nodes if isinstance(node, ast.Call)]
    return None not in names and (depth < 2 or not _POSITIONS.isdisjoint(map(str, names)))


def is_light(site: Site, call: ast.Call) -> bool:
    """Whether a call is no work on tensors worth compiling."""
    return _light_call(site, call, 1) is not None


def _light_call(site: Site, call: ast.Call, depth: int) -> str | None:
    """The last name of what is called; None where that may be work of another kind."""
    name = site.ask.callee(call)
    if name is None:
        last = method_name(call)
        return last if last in _POSITIONS or last in _LIGHT else None
    last = name.rpartition(".")[2]
    if name.startswith("torch."):
        return last if last in _POSITIONS or last in _LIGHT else None
    if name.startswith(("builtins.", "math.", "itertools.")):
        return "" if last not in ("print", "open", "input", "setattr") else None
    local = site.ask.called_function(call)
    if isinstance(local, ast.FunctionDef) and depth:
        return "" if makes_positions(site, local, depth - 1) else None
    return None
