"""Whether a new tensor only ever meets tensors that depend on an input."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.known import Device
from pygraph_lint.analysis.nodes import dotted, method_name
from pygraph_lint.fixes.site import Site

# What is asked of a tensor without its values.
_ASKED = frozenset(("shape", "device", "dtype", "ndim", "size", "dim", "numel", "layout"))
# Methods that give the same values in another form.
_SAME = frozenset(("to", "float", "half", "double", "long", "int", "expand", "view", "unsqueeze"))
# Functions that take tensors elementwise or joined, and return one on the device of the others.
_JOINING = frozenset(
    (
        *("add", "sub", "mul", "div", "true_divide", "pow", "fmod", "remainder", "atan2"),
        *("maximum", "minimum", "max", "min", "where", "clamp", "logaddexp", "lerp"),
        *("eq", "ne", "lt", "le", "gt", "ge", "isin", "cat", "concat", "stack"),
        *("logical_and", "logical_or", "matmul", "bmm", "einsum", "outer", "dot"),
    )
)
_DEPTH = 4


def meets_input(site: Site, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether every use of a new tensor, at once or under a local name, computes something together
    with a tensor that depends on an input: nobody gets the tensor itself, and nobody can read a
    number out of what is computed before the inputs are known.
    """
    child, parent = node, site.ask.parent(node)
    while isinstance(parent, ast.Attribute) and parent.attr in _SAME:
        call = site.ask.parent(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return False
        child, parent = call, site.ask.parent(call)
    if isinstance(parent, (ast.List, ast.Tuple)):
        child, parent = parent, site.ask.parent(parent)
    if isinstance(parent, ast.keyword):
        child, parent = parent.value, site.ask.parent(parent)
    if isinstance(parent, ast.BinOp):
        return _of_input(site, parent.right if parent.left is child else parent.left)
    if isinstance(parent, ast.Compare):
        return len(parent.ops) == 1 and any(
            _of_input(site, side)
            for side in (parent.left, *parent.comparators)
            if side is not child
        )
    if isinstance(parent, ast.AugAssign):
        return parent.value is child and _of_input(site, parent.target)
    if isinstance(parent, ast.Call):
        return parent.func is not child and _joined(site, parent, child)
    return depth > 0 and isinstance(parent, ast.Assign) and _named(site, parent, depth)


def _named(site: Site, statement: ast.Assign, depth: int) -> bool:
    """The same, of the one local name that is given the tensor."""
    target = statement.targets[0] if len(statement.targets) == 1 else None
    made = site.ask.definitions.definition_at(target) if isinstance(target, ast.Name) else None
    uses = site.ask.uses(made) if made is not None and site.function is not None else []
    return bool(uses) and all(meets_input(site, use, depth - 1) for use in uses)


def _joined(site: Site, call: ast.Call, child: ast.expr) -> bool:
    """Whether a call of torch computes element by element with an input among its arguments."""
    name = site.ask.callee(call)
    method = method_name(call)
    if name is not None:
        method = name.removeprefix("torch.") if name.startswith("torch.") else ""
    if method not in _JOINING:
        return False
    given = [each for each in call.args if each is not child]
    if name is None and isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    if isinstance(child, (ast.List, ast.Tuple)):
        given += child.elts
    return any(_of_input(site, each) for each in given)


def _of_input(site: Site, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether an expression is a tensor whose values depend on a parameter of the function, or on
    one of the module.
    """
    return site.ask.is_tensor(node) and _depends(site, node, depth)


def _depends(site: Site, node: ast.AST, depth: int) -> bool:
    if isinstance(node, ast.Attribute):
        if node.attr in _ASKED:
            return False
        if dotted(node) == f"self.{node.attr}":
            return site.ask.known(node).device is Device.MODEL
    if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Load, ast.Store)):
        found = site.ask.definitions.reaching_at(node.id, site.ask.statement(node))
        return bool(found) and all(
            isinstance(each.node, ast.arg)
            or (depth > 0 and each.value is not None and _depends(site, each.value, depth - 1))
            for each in found
        )
    return any(_depends(site, each, depth) for each in ast.iter_child_nodes(node))
