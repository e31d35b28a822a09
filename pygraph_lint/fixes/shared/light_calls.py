"""Calls that are no work worth compiling: what works out positions, and what is read off."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.engine.names import own_nodes
from pygraph_lint.fixes.engine.site import Site

# Positions, parts put together and laid out, and arithmetic of single elements.
_LIGHT = frozenset(
    """
        arange meshgrid repeat_interleave cumsum nonzero argwhere unique unique_consecutive bincount
        argsort searchsorted bucketize tril_indices triu_indices combinations cartesian_prod tensor
        as_tensor zeros ones full empty zeros_like ones_like full_like stack cat concat pad split
        split_with_sizes tensor_split chunk where isin Size view reshape expand repeat flatten
        unsqueeze squeeze transpose permute contiguous t to int long float bool type_as clone item
        tolist numel size dim sum prod max min any all abs floor ceil round clamp clip remainder add
        sub mul div floor_divide diff roll flip eq ne lt le gt ge is_tracing is_scripting is_tensor
        device masked_fill index_select append extend insert pop get items keys values index count
    """.split()
)


def is_light(site: Site, call: ast.Call, depth: int = 1) -> bool:
    """Whether a call is no work on tensors worth compiling."""
    name = site.ask.callee(call)
    last = method_name(call) if name is None else name.rpartition(".")[2]
    if name is None or name.startswith("torch."):
        return last in _LIGHT
    if name.startswith(("builtins.", "math.", "itertools.")):
        return last not in ("print", "open", "input", "setattr")
    local = site.ask.called_function(call)
    return depth > 0 and isinstance(local, ast.FunctionDef) and _only_calls_light(site, local)


def _only_calls_light(site: Site, function: ast.FunctionDef) -> bool:
    """Whether a function sets no attribute, runs when it is called, and makes only such calls."""
    return not any(
        (isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load))
        or isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await, ast.MatMult))
        or (isinstance(node, ast.Call) and not is_light(site, node, 0))
        for node in own_nodes(function)
    )
