"""Expressions that can be computed in any case: they change nothing and do not raise for shapes."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.known import Type
from pygraph_lint.fixes.factories import literal_number
from pygraph_lint.fixes.names import stored
from pygraph_lint.fixes.site import Site
from pygraph_lint.fixes.truths import single_elements

# One result for each element, whatever the shape; or a result of one element.
_ELEMENTWISE = frozenset(
    (
        *("abs", "neg", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "sign", "round"),
        *("floor", "ceil", "sin", "cos", "tanh", "sigmoid", "relu", "gelu", "silu", "clamp"),
        *("clip", "clamp_min", "clamp_max", "clone", "detach", "float", "half", "double"),
        *("bfloat16", "contiguous", "square", "reciprocal", "nan_to_num", "isnan", "isinf"),
        *("isfinite", "logical_not", "softplus", "leaky_relu", "elu", "zeros_like", "ones_like"),
        *("full_like", "masked_fill", "add", "sub", "mul", "div", "true_divide", "where"),
        *("maximum", "minimum", "pow", "eq", "ne", "lt", "le", "gt", "ge", "logical_and"),
        "logical_or",
    )
)
_REDUCING = frozenset(("sum", "mean", "any", "all", "norm"))
# These raise for a number that the dtype cannot hold.
_LIMITED = frozenset(("clamp", "clip", "clamp_min", "clamp_max", "masked_fill", "full_like"))
_HALF_MAX = 65504
#: The shape of a number, or of a tensor without dimensions.
SINGLE = ""
#: That of a tensor of one element, whatever its dimensions.
ONE = "1"


def shape_of(site: Site, node: ast.expr) -> str | None:
    """A name whose shape an expression surely has, SINGLE or ONE for one element, None where
    nothing is known, or where computing it may raise or change something.
    """
    if isinstance(node, ast.Constant):
        return SINGLE if isinstance(node.value, (int, float)) else None
    if isinstance(node, ast.UnaryOp):
        return shape_of(site, node.operand)
    if isinstance(node, ast.BinOp):
        return _joint(site, [node.left, node.right]) if _plain(node.op) else None
    if isinstance(node, ast.Compare):
        return _joint(site, [node.left, *node.comparators])
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _held(site, node)
    if isinstance(node, ast.Call):
        return _called(site, node)
    return None


def _plain(operator: ast.operator) -> bool:
    return isinstance(
        operator, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.BitAnd, ast.BitOr)
    )


def _joint(site: Site, parts: list[ast.expr]) -> str | None:
    """The shape of what is computed of parts element by element."""
    found = {shape_of(site, part) for part in parts}
    if None in found:
        return None
    found -= {SINGLE}
    return SINGLE if not found else found.pop() if len(found) == 1 else None


def alike(one: str | None, other: str | None) -> bool:
    """Whether one value can be selected from two of these shapes without raising."""
    return one is not None and (one == other or {one, other} == {SINGLE, ONE})


def _held(site: Site, node: ast.Name | ast.Attribute) -> str | None:
    known = site.ask.known(node)
    if known.must_be(Type.NUMBER) or known.rank == 0:
        return SINGLE
    if isinstance(node, ast.Attribute):
        tensor = known.must_be(Type.TENSOR) or made_tensor(site, node)
        return ast.unparse(node) if tensor else None
    value = site.ask.only_value(node)
    if value is not None and not isinstance(value, ast.Name) and site.ask.same_value(value, node):
        found = shape_of(site, value)
        if found is not None:
            return found
    return ONE if _is_asked(site, node) else node.id


def made_tensor(site: Site, node: ast.expr) -> bool:
    """Whether the class only ever sets an attribute of ``self`` to a tensor that it makes."""
    owner = site.ask.owner(node)
    if owner is None or not isinstance(node, ast.Attribute):
        return False
    values = stored(owner, ast.unparse(node))
    return bool(values) and all((site.ask.callee(each) or "") in _MAKING for each in values)


_MAKING = frozenset(
    f"torch.{name}" for name in ("as_tensor", "tensor", "zeros", "ones", "full", "empty", "rand")
)


def _is_asked(site: Site, name: ast.Name) -> bool:
    """Whether the condition of the branch asks for the truth of what a name holds."""
    test = getattr(site.tree, "test", None)
    if not isinstance(test, ast.expr) or name.id not in single_elements(test):
        return False
    here, there = (
        site.ask.definitions.reaching(name),
        site.ask.definitions.reaching_at(name.id, test),
    )
    return set(here) == set(there)


def _called(site: Site, node: ast.Call) -> str | None:
    name = site.ask.callee(node)
    if name is None:
        if not isinstance(node.func, ast.Attribute):
            return None
        parts = [node.func.value, *node.args]
        last = node.func.attr
    elif name.startswith("torch.") and name.count(".") <= 3:
        parts, last = list(node.args), name.rpartition(".")[2]
    else:
        return None
    number = node.args and isinstance(node.args[0], ast.Constant)
    if name in ("torch.tensor", "torch.as_tensor", "torch.scalar_tensor") and number:
        return SINGLE
    values = [item.value for item in node.keywords if item.arg in ("min", "max", "other", "alpha")]
    if len(values) != len(node.keywords) or not parts:
        return None
    if last in ("max", "min") and len(parts) == 2 and all(map(site.ask.is_tensor, parts)):
        return _joint(site, parts)
    if last in _REDUCING and len(parts) == 1 and not values:
        return SINGLE if shape_of(site, parts[0]) is not None else None
    if last in _LIMITED and not all(map(_is_small, [*parts[1:], *values])):
        return None
    return _joint(site, [*parts, *values]) if last in _ELEMENTWISE else None


def _is_small(node: ast.expr) -> bool:
    """Whether an argument is a number that every floating dtype holds, or a name."""
    number = literal_number(node)
    return abs(number) <= _HALF_MAX if number is not None else isinstance(node, ast.Name)
