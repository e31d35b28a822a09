"""Expressions of what a mask selects, ``f(y[mask])``, written for all elements, ``f(y)``."""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.queries.interface import Device, Type
from pygraph_lint.analysis.syntax.nodes import is_constant, method_name
from pygraph_lint.fixes.engine.build import expression, operand
from pygraph_lint.fixes.engine.site import Declined, Site
from pygraph_lint.fixes.shared.conditions import is_limit
from pygraph_lint.fixes.shared.partial_operations import defined, partial_operands

# One result for each element; none of these raises for a value.
_FUNCTIONS = frozenset(
    """
        abs neg exp log log1p expm1 sqrt rsqrt sign round floor ceil sin cos tan tanh sinh cosh atan
        sigmoid relu square reciprocal nan_to_num clamp clip clamp_min clamp_max log2 log10 erf
        softplus logical_not detach clone asin acos arcsin arccos sub add mul div maximum minimum
        atan2 float pow
    """.split()
)
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)


def masked_reads(node: ast.AST, mask: ast.expr) -> list[ast.Subscript]:
    """The reads ``y[mask]`` in an expression."""
    wanted = ast.dump(mask)
    return [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Subscript) and ast.dump(index_of(each)) == wanted
    ]


def index_of(node: ast.Subscript) -> ast.expr:
    """The index, without full slices behind it: ``mask`` of ``x[mask, :]``."""
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
    if len(parts) > 1 and all(map(_is_full, parts[1:])):
        return parts[0]
    return node.slice


def _is_full(node: ast.expr) -> bool:
    full = ast.unparse(node) == ":" if isinstance(node, ast.Slice) else False
    return full or is_constant(node, Ellipsis)


def is_mask(site: Site, mask: ast.expr) -> bool:
    """Whether an index is a tensor of truth values: the finding itself says so of a plain one."""
    if isinstance(mask, ast.UnaryOp) and isinstance(mask.op, ast.Invert):
        return is_mask(site, mask.operand)
    known = site.ask.known(mask)
    if known.dtype or not known.may_be(Type.TENSOR) or method_name(mask) == "bool":
        return known.dtype == "bool" or method_name(mask) == "bool"
    return isinstance(mask, (ast.Name, ast.Compare))


def expect_selectable(site: Site, node: ast.expr, mask: ast.expr, tensor: ast.expr) -> None:
    """Decline where ``torch.where`` does not do what a mask does. One of the host may be an index
    of a tensor of the device. Where it leaves out nan or inf, and what is computed of the others
    has a slope that depends on them, gradients are zero times nan, which is nan.
    """
    if _is_on_host(site, mask) and not _is_on_host(site, tensor):
        raise Declined("the mask is on the host, where the tensor may not be")
    if _leaves_nan_out(site, mask) and not _is_linear(node, mask):
        raise Declined("the mask leaves nan or inf out, which would get into gradients")


def _is_on_host(site: Site, node: ast.expr, depth: int = 4) -> bool:
    """Whether a value is on the host, or worked out together with a tensor that is, which has
    dimensions: nothing of a device can be computed with that.
    """
    known = site.ask.known(node)
    value = site.ask.only_value(node) if isinstance(node, ast.Name) else node
    kinds = (ast.Compare, ast.BinOp, ast.UnaryOp)
    parts = ast.iter_child_nodes(value) if depth and isinstance(value, kinds) else ()
    inner = (_is_on_host(site, each, depth - 1) for each in parts if isinstance(each, ast.expr))
    return (known.device is Device.HOST and known.rank != 0) or any(inner)


def _leaves_nan_out(site: Site, node: ast.AST, inverted: bool = False, depth: int = 9) -> bool:
    """Whether a mask asks for what is neither nan nor inf: ``isfinite(x)``, ``~isnan(x)``."""
    if isinstance(node, ast.Name):
        value = site.ask.only_value(node) if depth else None
        return value is not None and _leaves_nan_out(site, value, inverted, depth - 1)
    if isinstance(node, ast.Compare) and ast.dump(node.left) == ast.dump(node.comparators[0]):
        return isinstance(node.ops[0], ast.NotEq) == inverted
    name = method_name(node)
    if name in ("isnan", "isinf", "isfinite"):
        return (name != "isfinite") == inverted
    inverted ^= name == "logical_not" or isinstance(node, ast.UnaryOp)
    parts = ast.iter_child_nodes(node)
    return any(_leaves_nan_out(site, each, inverted, depth) for each in parts)


def _is_linear(node: ast.expr, mask: ast.expr) -> bool:
    """Whether what is read under a mask is only added up: the slope does not depend on it."""
    used = [each for each in ast.walk(node) if masked_reads(each, mask)]
    operators = (each.op for each in used if isinstance(each, ast.BinOp))
    calls = any(isinstance(each, ast.Call) for each in used)
    return not calls and all(isinstance(each, (ast.Add, ast.Sub)) for each in operators)


def is_elementwise(site: Site, node: ast.expr, mask: ast.expr) -> bool:
    """Whether an expression is worked out of ``y[mask]`` and numbers, element by element, so that
    it can be computed for the elements that are not selected, too.
    """
    if isinstance(node, ast.Subscript) and ast.dump(index_of(node)) == ast.dump(mask):
        return site.ask.is_pure(node.value)
    if isinstance(node, ast.UnaryOp):
        return is_elementwise(site, node.operand, mask)
    if isinstance(node, ast.BinOp):
        power = isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant)
        sides = (node.left, node.right)
        plain = isinstance(node.op, _OPERATORS) or power
        return plain and all(is_elementwise(site, side, mask) for side in sides)
    if isinstance(node, ast.Call):
        return _is_elementwise_call(site, node, mask)
    if not masked_reads(node, mask):
        return _is_number(site, node)
    return False


def _is_elementwise_call(site: Site, node: ast.Call, mask: ast.expr) -> bool:
    parts = [*node.args, *(item.value for item in node.keywords if item.arg in ("min", "max"))]
    name = site.ask.callee(node)
    if name is None and isinstance(node.func, ast.Attribute):
        parts, last = [node.func.value, *parts], node.func.attr
    else:
        last = (name or "").rpartition(".")[2] if (name or "").startswith("torch.") else ""
    if last not in _FUNCTIONS or len(node.args) + len(node.keywords) > 2:
        return not masked_reads(node, mask) and _is_number(site, node)
    return all(is_elementwise(site, part, mask) for part in parts)


def _is_number(site: Site, node: ast.expr) -> bool:
    """Whether an expression is one number for certain, the None of a bound left out, or a
    parameter, whose shape cannot be that of what a mask selects.
    """
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, (int, float))
    if _is_parameter(node):
        return True
    known = site.ask.known(node)
    single = known.must_be(Type.NUMBER) or (known.must_be(Type.TENSOR) and known.rank == 0)
    named = (site.ask.qualified(node) or "").startswith(("math.", "numpy.", "torch."))
    return single or named or is_limit(site, node)


def _is_parameter(node: ast.expr) -> bool:
    """``self.embedding.weight``, ``self.embeddings[0].weight``."""
    last = isinstance(node, ast.Attribute) and node.attr in ("weight", "bias")
    root: ast.expr = node
    while isinstance(root, (ast.Attribute, ast.Subscript)):
        root = root.value
    return last and isinstance(root, ast.Name) and root.id == "self"


def everywhere(
    site: Site, node: ast.expr, mask: ast.expr, selected: cst.BaseExpression
) -> cst.BaseExpression:
    """The expression for all elements. What is divided by, or given to a logarithm or a root, is 1
    where the mask does not select.
    """
    reads = [(site.expression_node(each), _value) for each in masked_reads(node, mask)]
    operands = [each for each in partial_operands(site, node) if masked_reads(each, mask)]
    return defined(site, node, selected, changes=reads, operands=operands)


def _value(new: cst.CSTNode) -> cst.CSTNode:
    """``y`` of ``y[mask]``."""
    read = cst.ensure_type(new, cst.Subscript)
    return operand(read.value) if read.lpar else read.value


def has_shape_of(site: Site, mask: ast.expr, tensor: ast.expr) -> bool:
    """Whether a mask has the shape of what it selects from: it has as many dimensions, or it was
    computed of that, which gives no fewer, and a mask with more cannot be an index.
    """
    rank = site.ask.known(tensor).rank
    if rank is not None and rank == site.ask.known(mask).rank:
        return True
    like, name = site.ask.shaped_like(tensor), ast.unparse(tensor)
    return any(
        (like is not None and site.ask.shaped_like(part) == like)
        or (ast.unparse(part) == name and site.ask.same_value(part, tensor))
        for part in _elements(site, mask)
    )


def _elements(site: Site, node: ast.expr, depth: int = 6) -> list[ast.expr]:
    """An expression, and what it is computed of element by element, also through local names."""
    value = site.ask.only_value(node) if isinstance(node, ast.Name) else None
    plain = isinstance(node, (ast.UnaryOp, ast.Compare)) or (
        isinstance(node, ast.BinOp) and not isinstance(node.op, ast.MatMult)
    )
    inner = [value] if value is not None else [*ast.iter_child_nodes(node)] if plain else []
    parts = (each for each in inner if depth and isinstance(each, ast.expr))
    return [node, *(part for each in parts for part in _elements(site, each, depth - 1))]


def widened(mask: str, like: str) -> cst.BaseExpression:
    """A mask with as many dimensions as what it selects from."""
    template = f"{mask}.reshape({mask}.shape + (1,) * ({like}.dim() - {mask}.dim()))"
    return expression(template)


def reduced(site: Site, node: ast.expr, word: str) -> ast.expr | None:
    """What a call of ``any``, ``all`` or ``sum``, whose number may be read, is made of."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    name = site.ask.callee(node)
    if name in ("builtins.bool", f"torch.{word}") and len(node.args) == 1:
        return node.args[0] if name != "builtins.bool" else reduced(site, node.args[0], word)
    if name is not None or node.args or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr == "item":
        return reduced(site, node.func.value, word)
    return node.func.value if node.func.attr == word else None
