"""Clamp behind ``torch.where`` instead of a branch on inf or nan.

    if x.dtype == torch.half and torch.isinf(x).any(): x = torch.clamp(x, min=-m, max=m)
    ->  if x.dtype == torch.half: x = torch.where(torch.isinf(x).any(), torch.clamp(...), x)

The same with ``nan_to_num`` in place of ``clamp``.

Unsafe: the name holds a copy, whose gradient, memory and hooks others may tell from the original's.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.build import Line, call, inverted, joined, operand
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.names import pure, shared
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.conditions import operands
from pygraph_lint.fixes.shared.factories import FLOATING_DTYPES


class _Guard(NamedTuple):
    """The parts of ``if statics and tests: temporaries; name = clamp``."""

    node: ast.If
    statics: list[ast.expr]
    tests: list[ast.expr]
    bounds: list[ast.Assign]
    update: ast.Assign
    name: str
    clamp: ast.Call


class FiniteGuard(Rewrite):
    """PG307, PG309: a guard against inf and nan."""

    codes = ("PG307", "PG309")
    message = "Clamp behind torch.where instead of a branch on the tensor's values"
    kinds = (ast.If,)
    order = 40

    def rewrite(self, site: Site) -> None:
        guard = _read(site)
        _expect_clamp(site, guard)
        site.safe_only_if("copy", False, f"{guard.name} becomes a copy")
        tests = [as_tensor(site, test) for test in guard.tests]
        condition = joined(map(operand, tests), cst.BitAnd()) if tests[1:] else tests[0]
        value = site.expression_node(guard.clamp)
        selected = call(f"{use_torch(site)}.where", condition, value, cst.Name(guard.name))
        line = site.statement_node(guard.update)
        assert isinstance(line, cst.SimpleStatementLine)
        update = cst.ensure_type(line.body[0], cst.Assign).with_changes(value=selected)
        bounds = [site.statement_node(each) for each in guard.bounds]
        lines: list[Line] = [*bounds, line.with_changes(body=[update])]
        site.put_branch(guard.node, lines, guard.statics)


def _read(site: Site) -> _Guard:
    """The parts of the guard. Raises Declined for another ``if``."""
    node = site.tree
    if not isinstance(node, ast.If) or node.orelse:
        raise Declined("not an if without else")
    parts = operands(node.test)
    tests = [part for part in parts if is_finite_test(site, part)]
    statics = [part for part in parts if part not in tests]
    if not tests or any(mentions_test(site, part) for part in statics):
        raise Declined("the condition is not a plain test for inf or nan")
    _same_order(site, parts, tests)
    bounds = [item for item in node.body[:-1] if isinstance(item, ast.Assign)]
    update = node.body[-1]
    if len(bounds) + 1 != len(node.body) or not isinstance(update, ast.Assign):
        raise Declined("the branch does more than assign names")
    target = update.targets[0]
    if len(update.targets) != 1 or not isinstance(target, ast.Name):
        raise Declined("the branch does not end in an assignment to one name")
    if not isinstance(update.value, ast.Call):
        raise Declined(_NO_CLAMP)
    return _Guard(node, statics, tests, bounds, update, target.id, update.value)


# -- the condition


def _same_order(site: Site, parts: list[ast.expr], tests: list[ast.expr]) -> None:
    """Decline where something that can do more than give a value is evaluated at other times: the
    selection makes every test, and looks at all else before.
    """
    behind = parts[parts.index(tests[0]) + 1 :]
    if not all(part in tests or only_looks(part) for part in behind):
        raise Declined("the condition calls something behind the test for inf or nan")
    tested = [
        tested_value(site, node)
        for test in tests
        for node in ast.walk(test)
        if isinstance(node, ast.Call) and is_test(site, node)
    ]
    if (behind or len(tested) > 1) and not all(map(pure, tested)):
        raise Declined("what is tested for inf or nan is computed in the condition")


# -- what must hold


def _expect_clamp(site: Site, guard: _Guard) -> None:
    """Decline unless the branch clamps one name between numbers, and computes nothing else."""
    if site.function is None:
        raise Declined("the code is not in a function")
    same = _clamped(site, guard) == guard.name
    site.require("same-name", same, "the branch does not clamp the name it assigns")
    for item in guard.bounds:
        name = item.targets[0].id if isinstance(item.targets[0], ast.Name) else None
        local = (
            name is not None
            and not shared(site.function, name)
            and not site.ask.used_outside(name, [guard.node])
        )
        site.require(
            "local", local and len(item.targets) == 1, "what the branch computes is used behind it"
        )
        number = is_number(site, Bounds(guard.name, guard.bounds), item.value)
        site.require("static", number, "the branch computes more than bounds")
    torch = (site.ask.callee(guard.clamp) or "").startswith("torch.")
    given = [*guard.clamp.args[torch:], *(item.value for item in guard.clamp.keywords)]
    numbers = all(fits(site, Bounds(guard.name, guard.bounds), bound) for bound in given)
    site.require(
        "number-bounds", numbers, "the bounds may not be numbers that every floating dtype holds"
    )


def _clamped(site: Site, guard: _Guard) -> str | None:
    """The name that the branch clamps."""
    function = guard.clamp
    name = site.ask.callee(function) or ""
    if name.removeprefix("torch.") in _CLAMPING:
        return dotted(function.args[0]) if function.args else None
    if isinstance(function.func, ast.Attribute) and function.func.attr in _CLAMPING:
        return dotted(function.func.value)
    raise Declined(_NO_CLAMP)


_CLAMPING = ("clamp", "clip", "nan_to_num")
_NO_CLAMP = "the branch does not end in clamp or nan_to_num"


# -- tests for inf and nan


_TESTS = ("isinf", "isnan", "isfinite")


def only_looks(node: ast.expr) -> bool:
    """Whether an operand only looks at what is there, and is unlikely to raise: an order of two
    values is not among them.
    """
    if isinstance(node, ast.BoolOp):
        return all(map(only_looks, node.values))
    if isinstance(node, ast.UnaryOp):
        return only_looks(node.operand)
    if isinstance(node, ast.Compare):
        plain = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
        compares = all(isinstance(item, plain) for item in node.ops)
        return compares and all(map(only_looks, [node.left, *node.comparators]))
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(map(only_looks, node.elts))
    return pure(node)


def is_finite_test(site: Site, node: ast.expr) -> bool:
    """A 0-d boolean tensor: ``isinf(x).any()`` and the like, joined by or, or negated."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return is_finite_test(site, node.operand)
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
        return all(is_finite_test(site, value) for value in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        if node.func.attr == "item" and not node.args:
            return is_finite_test(site, node.func.value)
        reduced = _reduced(site, node)
        return reduced is not None and is_test(site, reduced)
    return False


def _reduced(site: Site, node: ast.Call) -> ast.expr | None:
    """What ``t.any()`` or ``torch.any(t)`` reduces to one element."""
    if site.ask.callee(node) in ("torch.any", "torch.all"):
        return node.args[0] if len(node.args) == 1 else None
    assert isinstance(node.func, ast.Attribute)
    return node.func.value if node.func.attr in ("any", "all") and not node.args else None


def is_test(site: Site, node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = site.ask.callee(node)
    if name is not None:
        return name.removeprefix("torch.") in _TESTS and len(node.args) == 1 and not node.keywords
    return isinstance(node.func, ast.Attribute) and node.func.attr in _TESTS and not node.args


def tested_value(site: Site, node: ast.Call) -> ast.expr:
    """``x`` of ``torch.isinf(x)`` or ``x.isinf()``."""
    if site.ask.callee(node) is not None:
        return node.args[0]
    assert isinstance(node.func, ast.Attribute)
    return node.func.value


def mentions_test(site: Site, node: ast.expr) -> bool:
    return any(is_test(site, inner) for inner in ast.walk(node))


def as_tensor(site: Site, node: ast.expr) -> cst.BaseExpression:
    """A test as one boolean tensor."""
    if isinstance(node, ast.UnaryOp):
        return inverted(as_tensor(site, node.operand))
    if isinstance(node, ast.BoolOp):
        return joined([as_tensor(site, value) for value in node.values], cst.BitOr())
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    return site.expression_node(node.func.value if node.func.attr == "item" else node)


# -- bounds


_HALF_MAX = 65504


class Bounds(NamedTuple):
    """The name that is clamped, and what its branch assigns before."""

    name: str
    assigned: list[ast.Assign]


def is_number(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """Whether an expression is a Python number: literals, torch.finfo, the branch's own names,
    arithmetic.
    """
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(site, bounds, node.operand)
    if isinstance(node, ast.BinOp):
        return all(is_number(site, bounds, side) for side in (node.left, node.right))
    if isinstance(node, ast.Name):
        return _temporary(bounds, node.id) is not None
    return _is_limit(site, bounds, node)


def _is_limit(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """``torch.finfo(x.dtype).max`` and the like, of the guarded tensor's own dtype or a written
    one.
    """
    if not isinstance(node, ast.Attribute) or node.attr not in ("max", "min", "eps", "tiny"):
        return False
    limits = node.value
    if not isinstance(limits, ast.Call) or site.ask.callee(limits) != "torch.finfo":
        return False
    dtype = limits.args[0] if len(limits.args) == 1 else None
    if dtype is None:
        return False
    return dotted(dtype) == f"{bounds.name}.dtype" or site.ask.qualified(dtype) in FLOATING_DTYPES


def _temporary(bounds: Bounds, name: str) -> ast.expr | None:
    """What the branch assigns to one of its own names."""
    return next((each.value for each in bounds.assigned if dotted(each.targets[0]) == name), None)


def fits(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """Whether a bound is a number that x's dtype can hold: clamp raises for others, also when
    nothing is clamped.
    """
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return fits(site, bounds, node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) and abs(node.value) <= _HALF_MAX
    if isinstance(node, ast.BinOp):
        small = isinstance(node.right, ast.Constant) and fits(site, bounds, node.right)
        limit = isinstance(node.left, ast.Attribute) and node.left.attr == "max"
        below = small and limit and isinstance(node.op, ast.Sub)
        return below and _is_own_limit(site, bounds, node.left)
    if isinstance(node, ast.Name):
        value = _temporary(bounds, node.id)
        return value is not None and not isinstance(value, ast.Name) and fits(site, bounds, value)
    return _is_own_limit(site, bounds, node)


def _is_own_limit(site: Site, bounds: Bounds, node: ast.expr) -> bool:
    """A limit of the guarded tensor's own dtype."""
    inner = (part for part in ast.walk(node) if isinstance(part, ast.expr))
    own = any(dotted(part) == f"{bounds.name}.dtype" for part in inner)
    return own and _is_limit(site, bounds, node)
