"""Conditions on a name that compare it with literals, or ask for its kind."""

from __future__ import annotations

import ast
from enum import Enum
from typing import NamedTuple


class TestKind(Enum):
    """What a condition asks of a parameter."""

    TRUE = "true"  # p
    ONE_OF = "one of"  # p == "x", p in ("x", "y")
    BELOW = "below"  # p < 1
    AT_MOST = "at most"  # p <= 1
    NONE = "none"  # p is None
    KIND = "kind"  # isinstance(p, list)


class LiteralTest(NamedTuple):
    """A condition on a parameter; ``among`` are the literals that it is compared with, ``kinds``
    the bits of the classes that it may be an instance of.
    """

    how: TestKind
    among: tuple[object, ...] = ()
    kinds: int = 0

    def outcome(self, value: object) -> bool:
        """How it comes out for a literal."""
        if self.how is TestKind.TRUE:
            return bool(value)
        if self.how in _ORDERING:
            limit = self.among[0]
            if not isinstance(value, (int, float)) or not isinstance(limit, (int, float)):
                return False
            return value < limit or (self.how is TestKind.AT_MOST and value == limit)
        return value is None if self.how is TestKind.NONE else value in self.among


_TRUE, _NONE = LiteralTest(TestKind.TRUE), LiteralTest(TestKind.NONE)
_ORDERING = (TestKind.BELOW, TestKind.AT_MOST)
# Which test each comparison asks, and its outcome for which the comparison holds.
_ORDERS: dict[type[ast.cmpop], tuple[TestKind, bool]] = {
    ast.Lt: (TestKind.BELOW, True),
    ast.LtE: (TestKind.AT_MOST, True),
    ast.Gt: (TestKind.AT_MOST, False),
    ast.GtE: (TestKind.BELOW, False),
}


class ParameterTest(NamedTuple):
    """A test of a parameter, and how it has to come out."""

    parameter: str
    test: LiteralTest
    outcome: bool


def comparison(node: ast.expr) -> tuple[ast.expr, LiteralTest, bool] | None:
    """What a condition compares with literals, the test, and the outcome of the test for which the
    condition holds; None for other conditions.
    """
    if isinstance(node, (ast.Name, ast.Attribute)):
        return node, _TRUE, True
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    operator, right = node.ops[0], node.comparators[0]
    positive = isinstance(operator, (ast.Eq, ast.Is, ast.In))
    if asks_for_none(node) is not None:
        return node.left, _NONE, positive
    if isinstance(operator, (ast.Is, ast.IsNot)):
        if not isinstance(right, ast.Constant) or not isinstance(right.value, bool):
            return None
        return node.left, LiteralTest(TestKind.ONE_OF, (right.value,)), positive
    if isinstance(operator, (ast.In, ast.NotIn)):
        listed = right.elts if isinstance(right, (ast.Tuple, ast.List, ast.Set)) else []
    elif type(operator) in _ORDERS:
        number = isinstance(right, ast.Constant) and isinstance(right.value, (int, float))
        how, holds = _ORDERS[type(operator)]
        return (node.left, LiteralTest(how, (right.value,)), holds) if number else None  # type: ignore[attr-defined]
    elif isinstance(operator, (ast.Eq, ast.NotEq)):
        listed = [right]
    else:
        return None
    among = tuple(each.value for each in listed if isinstance(each, ast.Constant))
    if not among or len(among) < len(listed):
        return None
    return node.left, LiteralTest(TestKind.ONE_OF, among), positive


def asks_for_none(node: ast.expr) -> bool | None:
    """Whether a condition holds for None, ``x is None``, or for all else, ``x != None``; None for
    other conditions.
    """
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    right = node.comparators[0]
    if not isinstance(right, ast.Constant) or right.value is not None:
        return None
    if isinstance(node.ops[0], (ast.Is, ast.Eq)):
        return True
    return False if isinstance(node.ops[0], (ast.IsNot, ast.NotEq)) else None
