"""Look up with a bounded index instead of branching on it.

    table[i] if i >= 0 else last
    ->  index = torch.as_tensor(i, device=table.device)
        torch.where(index >= 0, table[index.clamp(min=0).reshape(1)].squeeze(0), last)

What is taken otherwise is a number, a tensor without dimensions, or another element of the table.
Always unsafe: both values are computed, and the element is a copy.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.known import Type
from pygraph_lint.fixes.branches.tensor_branch import BOTH_ARMS
from pygraph_lint.fixes.build import assign, changed, expression, operand
from pygraph_lint.fixes.calm import SINGLE, shape_of
from pygraph_lint.fixes.factories import literal_number
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import stored
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site
from pygraph_lint.fixes.syncs.element_index import is_table, is_written
from pygraph_lint.fixes.truths import is_within

_PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
# What surely evaluates its parts.
_AROUND = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Tuple, ast.Compare, ast.Subscript)


class _Guard(NamedTuple):
    """``lookup`` at ``asked + offset`` is taken where ``asked`` is at least ``low``."""

    asked: ast.expr
    low: int
    offset: int
    lookup: ast.Subscript
    other: ast.expr


class GuardedLookup(Rewrite):
    """PG301, PG307, PG407: an element of a table, if the index is not below its first one."""

    codes = ("PG301", "PG307", "PG407")
    message = "Look up with a bounded index instead of branching on it"
    kinds = (ast.IfExp,)
    order = 43

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.IfExp)
        guard = _guard(node)
        if guard is None or not (is_within(site, node.test) or is_within(site, guard.lookup)):
            raise Declined
        table, statement = guard.lookup.value, site.ask.statement(node)
        known = is_table(site, table)
        site.require("tensor", known, "the table is not known to be a tensor")
        proven = site.ask.is_tensor(table)
        site.safe_only_if("table", proven, f"`{ast.unparse(table)}` must be a tensor")
        pure = site.ask.is_pure(table) and site.ask.is_pure(guard.asked)
        site.require("pure", pure, "the table or its index is made by what has an effect")
        bounded = guard.low + guard.offset >= 0
        site.require("bounded", bounded, "an index that is asked for may be negative")
        around = [each for each in site.ask.path(node) if isinstance(each, ast.expr)]
        always = all(isinstance(each, _AROUND) for each in around)
        site.require(
            "always",
            always and isinstance(statement, _PLAIN),
            "the statement may not need the index",
        )
        fits = _fits(site, guard.other, table)
        site.require("fits", fits, "the other value may have another shape than an element")
        site.require("read", not is_written(site, node), "the element is written to in place")
        site.safe_only_if("both", False, BOTH_ARMS)
        whole = site.ask.known(guard.asked).dtype == "int"
        site.safe_only_if("whole", whole, "the index is taken for a whole number")
        self._put(site, node, guard)

    def _put(self, site: Site, node: ast.IfExp, guard: _Guard) -> None:
        """Bind the index as a tensor in front of the statement, and select with it."""
        name, torch = site.free("index"), use_torch(site)
        table = operand(site.expression_node(guard.lookup.value))
        index = site.expression_node(guard.asked)
        offset = guard.offset
        place = f"({name} {'-' if offset < 0 else '+'} {abs(offset)})" if offset else name
        element = f"{{table}}[{place}.clamp(min=0).reshape(1)].squeeze(0)"
        values = {
            "test": changed(site.expression_node(node.test), {index: lambda _: cst.Name(name)}),
            "element": expression(element, table=table),
            "other": site.expression_node(guard.other),
        }
        arms = "{element}, {other}" if guard.lookup is node.body else "{other}, {element}"
        selected = expression(f"{torch}.where({{test}}, {arms})", **values)  # type: ignore[arg-type]
        statement = site.ask.statement(node)
        line = changed(
            site.statement_node(statement), {site.expression_node(node): lambda _: selected}
        )
        assert isinstance(line, cst.SimpleStatementLine)
        made = f"{torch}.as_tensor({{i}}, device={{table}}.device)"
        first = assign(name, expression(made, i=index, table=table))
        site.put_statements([statement], [first, line.with_changes(leading_lines=())])


def _guard(node: ast.IfExp) -> _Guard | None:
    """What an expression looks up, and what its condition asks of the index."""
    test = node.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    index, operator = test.left, test.ops[0]
    number = literal_number(test.comparators[0])
    below = isinstance(operator, (ast.Lt, ast.LtE))
    lookup, other = (node.orelse, node.body) if below else (node.body, node.orelse)
    if not isinstance(number, int) or not isinstance(operator, (ast.Gt, ast.GtE, ast.Lt, ast.LtE)):
        return None
    offset = _distance(lookup.slice, index) if isinstance(lookup, ast.Subscript) else None
    if not isinstance(lookup, ast.Subscript) or offset is None:
        return None
    low = number + isinstance(operator, (ast.Gt, ast.LtE))
    return _Guard(index, low, offset, lookup, other)


def _distance(node: ast.expr, index: ast.expr) -> int | None:
    """``k`` of ``index + k``; None for another expression."""
    if ast.dump(node) == ast.dump(index):
        return 0
    if not isinstance(node, ast.BinOp) or ast.dump(node.left) != ast.dump(index):
        return None
    number = literal_number(node.right)
    if not isinstance(number, int) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return None
    return number if isinstance(node.op, ast.Add) else -number


def _fits(site: Site, node: ast.expr, table: ast.expr) -> bool:
    """Whether a value has the shape of an element of a table, or is a single number: whatever an
    attribute or a name may hold.
    """
    if isinstance(node, ast.IfExp):
        return _fits(site, node.body, table) and _fits(site, node.orelse, table)
    if isinstance(node, ast.Subscript):
        number = site.ask.known(node.slice).must_be(Type.NUMBER)
        return number and ast.dump(node.value) == ast.dump(table)
    if shape_of(site, node) == SINGLE:
        return True
    values: list[ast.expr] | None = None
    owner = site.ask.owner(node)
    if isinstance(node, ast.Attribute) and owner is not None:
        values = stored(owner, ast.unparse(node))
    elif isinstance(node, ast.Name):
        values = site.ask.values(node)
    return bool(values) and all(_fits(site, each, table) for each in values or ())
