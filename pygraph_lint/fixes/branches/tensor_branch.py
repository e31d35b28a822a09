"""Select with ``torch.where`` instead of branching on a tensor.

    if x.sum() > 0: x = x * 2  ->  x = torch.where(x.sum() > 0, x * 2, x)

Updates without else, arms that assign the same names, arms that return, and ``a if t else b``.
``and / or / not`` become their logical functions; conditions that need no tensor's value stay
Python. Always unsafe: both arms are computed. Arms that may raise when they are not taken are left
alone.
"""

from __future__ import annotations

import ast
from functools import partial, reduce

import libcst as cst

from pygraph_lint.analysis.known import Known, Type
from pygraph_lint.analysis.nodes import method_name
from pygraph_lint.fixes.build import Line, assign, call, conjunction, expression, grouped
from pygraph_lint.fixes.calm import ONE, SINGLE, alike, made_tensor, shape_of
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Rewrite, Site
from pygraph_lint.fixes.truths import (
    PLAIN,
    asked_of,
    is_elif,
    is_within,
    operands,
    single_elements,
    tested_operands,
)

BOTH_ARMS = (
    "both arms are computed: dtypes, strides and aliases may differ from those of the arm taken,"
    " and a nan in the other arm is no longer kept out of gradients"
)


class TensorBranch(Rewrite):
    """PG301, PG307, PG309: an ``if``, as a statement or not, whose arms only select values."""

    codes = ("PG301", "PG307", "PG309")
    message = "Select with torch.where instead of branching on the tensor's values"
    kinds = (ast.If, ast.IfExp)
    order = 45

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, self.kinds)
        if not is_within(site, node.test):
            raise Declined("not the condition of a branch")
        if isinstance(node, ast.IfExp):
            _selects(site, node)
            return
        site.require("not-elif", not is_elif(site, node), "the branch is an elif")
        tensors = tested_operands(site, node.test)
        statics = [part for part in operands(node.test) if part not in tensors]
        site.require(
            "static-else", not statics or not node.orelse, "the else has other reasons too"
        )
        condition = _all_of(site, tensors)
        site.safe_only_if("both-arms", False, BOTH_ARMS)
        if isinstance(node.body[-1], ast.Return):
            _returns(site, node, condition, statics)
        else:
            _assigns(site, node, condition, statics)


# -- the condition


def _all_of(site: Site, parts: list[ast.expr]) -> cst.BaseExpression:
    """One boolean tensor, true where all operands are."""
    found = [truth(site, part) for part in parts]
    return _joined(f"{use_torch(site)}.logical_and", found)


def truth(site: Site, node: ast.expr) -> cst.BaseExpression:
    """A boolean tensor of one element with the truth of ``node``."""
    torch = use_torch(site)
    if isinstance(node, ast.BoolOp):
        word = "logical_and" if isinstance(node.op, ast.And) else "logical_or"
        return _joined(f"{torch}.{word}", [truth(site, value) for value in node.values])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return call(f"{torch}.logical_not", truth(site, node.operand))
    site.require("pure", site.ask.is_pure(node), "the condition calls what is not known")
    site.require("tensor", site.ask.is_tensor(node), "the condition is not certainly a tensor")
    known = site.ask.known(node)
    single = known.rank == 0 or shape_of(site, node) == SINGLE
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        raise Declined("the comparison is chained")
    value = site.expression_node(node)
    if not isinstance(node, ast.Compare) and known.dtype != "bool" and not _is_question(node):
        value = expression("{value} != 0", value=grouped(value))
    # Of one element, or asking for its truth raises: without its dimensions the result has none.
    return value if single else expression("{value}.reshape(())", value=grouped(value))


def _joined(function: str, parts: list[cst.BaseExpression]) -> cst.BaseExpression:
    return reduce(partial(call, function), parts)


def _is_question(node: ast.expr) -> bool:
    return method_name(node) in ("any", "all", "isnan", "isinf", "isfinite")


# -- the arms


def _assigns(
    site: Site, node: ast.If, condition: cst.BaseExpression, statics: list[ast.expr]
) -> None:
    """Select each name that an arm assigns; what needs no tensor's value stays an ``if``."""
    first, second = _arm(site, node.body), _arm(site, node.orelse)
    same = not node.orelse or list(first) == list(second)
    site.require("same-names", same, "the arms do not assign the same names in the same order")
    lines: list[Line] = []
    if len(first) > 1 and not isinstance(condition, cst.Name):
        chosen = site.free("chosen")
        lines.append(assign(chosen, condition))
        condition = cst.Name(chosen)
    for name, value in first.items():
        other = second.get(name)
        _expect_selectable(site, node, name, value, other)
        then = site.expression_node(value)
        rest = cst.Name(name) if other is None else site.expression_node(other)
        lines.append(assign(name, call(f"{use_torch(site)}.where", condition, then, rest)))
    _put(site, node, lines, statics)


def _expect_selectable(
    site: Site, node: ast.If, name: str, value: ast.expr, other: ast.expr | None
) -> None:
    """Both values are tensors of one shape, which can be computed in any case."""
    if other is None and _is_truth(value) and _was_compared(site, node, name):
        site.safe_only_if("truth", False, f"`{name}` becomes a tensor")
        return
    if other is None:
        asked = name in _asked(node.test)
        before = Known(Type.TENSOR) if asked else site.ask.known_at(name, node)
        shape = SINGLE if before.rank == 0 else _shape_before(site, node, name)
    else:
        before = site.ask.known(other)
        shape = shape_of(site, other)
    given = Known(Type.TENSOR) if made_tensor(site, value) else site.ask.known(value)
    selectable = _are_tensors(site, before, given)
    site.require("tensors", selectable, f"not both values of {name} are known to be tensors")
    found = shape_of(site, value)
    if None not in (found, shape) and {found, shape} & {SINGLE, ONE} and not alike(found, shape):
        site.safe_only_if("shape", False, f"`{name}` always has the larger one of two shapes")
        return
    expect_shape(site, value, shape)


def _asked(test: ast.expr) -> set[str]:
    """The names that a condition asks what only tensors can be asked."""
    calls = (asked_of(node) for node in ast.walk(test) if isinstance(node, ast.Call))
    return {node.id for node in calls if isinstance(node, ast.Name)}


def _is_truth(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, bool)


def _was_compared(site: Site, node: ast.If, name: str) -> bool:
    """Whether a name holds the result of a comparison, or True or False, in front of the branch:
    a tensor of truth values, or one of Python's, which ``where`` takes, too.
    """
    values = [each.value for each in site.ask.definitions.reaching_at(name, node)]
    compared = [value for value in values if isinstance(value, ast.Compare)]
    return (
        bool(compared)
        and all(
            value is not None
            and (_is_truth(value) or value in compared or site.ask.known(value).dtype == "bool")
            for value in values
        )
        and not any(_of_python(site, value) for value in compared)
    )


def _of_python(site: Site, value: ast.Compare) -> bool:
    """Whether a comparison is one of Python's for certain: of numbers, of identity, of members."""
    plain = all(isinstance(each, PLAIN) for each in value.ops)
    sides = (value.left, *value.comparators)
    return not plain or all(site.ask.known(side).must_be(Type.NUMBER) for side in sides)


def _are_tensors(site: Site, one: Known, other: Known) -> bool:
    """Whether two values are tensors; one of them may be a number, which becomes a tensor."""
    kinds = (one, other)
    if all(each.must_be(Type.TENSOR) for each in kinds):
        return True
    one_tensor = any(each.must_be(Type.TENSOR) for each in kinds)
    if not one_tensor or not all(each.must_be(Type.TENSOR | Type.NUMBER) for each in kinds):
        return False
    site.safe_only_if("number", False, "what was a number in one arm is a tensor")
    return True


def _shape_before(site: Site, node: ast.If, name: str) -> str | None:
    """The shape of what a name holds in front of the branch."""
    found = site.ask.definitions.reaching_at(name, node)
    value = found[0].value if len(found) == 1 else None
    if value is not None and site.ask.same_value(value, node):
        return shape_of(site, value) or name
    return ONE if name in single_elements(node.test) else name


def expect_shape(site: Site, value: ast.expr, shape: str | None) -> None:
    same = alike(shape_of(site, value), shape)
    site.require("calm", same, "an arm may raise when it is not taken, or have another shape")


def _arm(site: Site, block: list[ast.stmt]) -> dict[str, ast.expr]:
    """What an arm assigns, in order."""
    found: dict[str, ast.expr] = {}
    for statement in block:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Name):
            raise Declined("a branch does more than assign names")
        once = len(statement.targets) == 1 and target.id not in found
        site.require("once", once, "an arm assigns a name twice")
        found[target.id] = statement.value
    return found


def _returns(
    site: Site, node: ast.If, condition: cst.BaseExpression, statics: list[ast.expr]
) -> None:
    """Select what is returned."""
    last = node.orelse or site.behind(node)[:1]
    single = len(node.body) == 1 and len(last) == 1 and not statics
    site.require("single-return", single, "the branch does more than return one value")
    then, otherwise = (
        item.value if isinstance(item, ast.Return) else None for item in (node.body[0], last[0])
    )
    if then is None or otherwise is None:
        raise Declined("a branch returns nothing")
    value = _either(site, condition, then, otherwise)
    line = cst.SimpleStatementLine([cst.Return(value)])
    site.require("no-comments", not _comments(site, node, last[0]), _COMMENTS)
    site.put_statements([node] if node.orelse else [node, last[0]], [line])


def _selects(site: Site, node: ast.IfExp) -> None:
    """Select the value of a conditional expression."""
    site.safe_only_if("both-arms", False, BOTH_ARMS)
    site.put(node, _either(site, truth(site, node.test), node.body, node.orelse))


def _either(
    site: Site, condition: cst.BaseExpression, then: ast.expr, otherwise: ast.expr
) -> cst.BaseExpression:
    """``torch.where`` of two values."""
    tensors = _are_tensors(site, site.ask.known(then), site.ask.known(otherwise))
    site.require("returned", tensors, "not both values are known to be tensors")
    expect_shape(site, then, shape_of(site, otherwise))
    expect_shape(site, otherwise, shape_of(site, then))
    nodes = [site.expression_node(value) for value in (then, otherwise)]
    return call(f"{use_torch(site)}.where", condition, *nodes)


_COMMENTS = "comments inside the branch would be lost"


def _comments(site: Site, first: ast.stmt, last: ast.stmt) -> bool:
    start, end = site.source.span(first)[0], site.source.span(last)[1]
    return "#" in site.source.text[start:end]


def _put(site: Site, node: ast.If, lines: list[Line], statics: list[ast.expr]) -> None:
    site.require("no-comments", not _comments(site, node, node), _COMMENTS)
    if statics:
        test = conjunction([site.expression_node(part) for part in statics])
        lines = [cst.If(test=test, body=cst.IndentedBlock(lines))]
    site.put_statements([node], lines)
