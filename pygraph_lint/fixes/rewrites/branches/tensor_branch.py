"""Select with ``torch.where`` instead of branching on a tensor.

    if x.sum() > 0: x = x * 2  ->  x = torch.where(x.sum() > 0, x * 2, x)
    if x.sum() > 0: x += y     ->  x += torch.where(x.sum() > 0, y, 0)

Arms that assign names, arms that return, and ``a if t else b``. ``and / or / not`` become their
logical functions; conditions that need no tensor's value stay Python, and messages stay outside
compiled code. Always unsafe: both arms are computed. Arms with calls that may raise when they are
not taken are left alone.
"""

from __future__ import annotations

import ast

import libcst as cst

from pygraph_lint.analysis.queries.interface import Known, Type
from pygraph_lint.analysis.syntax.nodes import dotted
from pygraph_lint.fixes.engine.build import (
    Line,
    assign,
    call,
    code,
    conjunction,
    expression,
    grouped,
)
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.names import all_nodes
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared.branch_arms import NEUTRAL, Step, steps
from pygraph_lint.fixes.shared.computable import ONE, SINGLE, is_held, is_written_out, shape_of
from pygraph_lint.fixes.shared.condition_tensors import held_by, root_of, truth
from pygraph_lint.fixes.shared.conditions import (
    ASKED_ANYWAY,
    asked_anyway,
    asked_of,
    is_within,
    operands,
    single_elements,
    tested_operands,
)
from pygraph_lint.fixes.shared.guards import not_compiling
from pygraph_lint.fixes.shared.partial_operations import defined, partial_operands
from pygraph_lint.fixes.shared.selectable import (
    FITS,
    HELD,
    NUMBER,
    UNRELATED,
    are_related,
    expect_fitting,
    expect_tensors,
)

BOTH_ARMS = (
    "both arms are computed: dtypes, strides and aliases may differ, and gradients may be nan, or"
    " zeros instead of none"
)


TENSOR = Known(Type.TENSOR)


class TensorBranch(Rewrite):
    """PG201, PG202, PG301, PG307, PG309: an ``if``, as a statement or not, whose arms only select
    values; PG306: ``a if draw < p else b``.
    """

    codes = ("PG201", "PG202", "PG301", "PG306", "PG307", "PG309")
    message = "Select with torch.where instead of branching on the tensor's values"
    kinds = (ast.If, ast.IfExp)
    order = 45

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, self.kinds)
        skips = site.finding.code == "PG306" and isinstance(node, ast.If)
        if skips or not is_within(site, node.test):
            raise Declined("it is not what a branch asks (`if t:`, `a if t else b`)")
        tensors = tested_operands(site, node.test)
        statics = [part for part in operands(node.test) if part not in tensors]
        condition = truth(site, ast.BoolOp(ast.And(), tensors))
        site.safe_only_if("both-arms", False, BOTH_ARMS)
        anyway = bool(tensors) and asked_anyway(site, node.test, tensors[0])
        site.safe_only_if("fits", not anyway, ASKED_ANYWAY)
        if isinstance(node, ast.IfExp):
            _selects(site, node, condition, statics)
        elif isinstance(node.body[-1], ast.Return):
            _returns(site, node, condition, statics)
        else:
            _assigns(site, node, condition, statics)


def _assigns(
    site: Site, node: ast.If, condition: cst.BaseExpression, statics: list[ast.expr]
) -> None:
    """Select each name that an arm assigns; what needs no tensor's value stays an ``if``."""
    plan = steps(site, node)
    if not any(step.name and not step.own for step in plan):
        raise Declined("the branch selects nothing")
    lines: list[Line] = []
    names = {step.name for step in plan}
    several = sum(not step.own for step in plan) > 1
    values = [it for step in plan for it in (step.value, step.other) if it]
    several |= any(partial_operands(site, each) for each in values)
    if several and not (isinstance(condition, cst.Name) and condition.value not in names):
        if isinstance(condition, cst.Name):
            condition = expression("{asked} != 0", asked=condition)
        lines.append(assign(site.free("chosen"), condition))
        condition = cst.Name(site.free("chosen"))
    done: set[str] = set()
    for step in plan:
        old = _line_of(site, step.statement)
        if step.name:
            lines.append(_selected(site, node, condition, step, old, step.name in done))
        else:
            _say(site, lines, condition, old)
        done.add(step.name)
    site.put_branch(node, lines, statics)


def _line_of(site: Site, statement: ast.stmt) -> cst.SimpleStatementLine:
    """The line of a statement in an arm, which may be on that of the branch."""
    small = site.file.node(statement)
    assert isinstance(small, cst.BaseSmallStatement)
    if not site.source.alone(statement):
        alone = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        return cst.SimpleStatementLine([alone])
    return cst.ensure_type(site.statement_node(statement), cst.SimpleStatementLine)


def _say(
    site: Site, lines: list[Line], condition: cst.BaseExpression, old: cst.SimpleStatementLine
) -> None:
    """Leave what an arm says, and computes for that, outside compiled code."""
    site.safe_only_if("said", False, "compiled code no longer says this")
    said = lines[-1] if lines else None
    if isinstance(said, cst.If):
        lines[-1] = said.with_deep_changes(said.body, body=[*said.body.body, old])
        return
    test = conjunction([not_compiling(site), condition])
    body = cst.IndentedBlock([old.with_changes(leading_lines=())])
    lines.append(cst.If(test=test, body=body, leading_lines=old.leading_lines))


def _selected(
    site: Site,
    node: ast.If,
    condition: cst.BaseExpression,
    step: Step,
    old: cst.SimpleStatementLine,
    again: bool,
) -> Line:
    """What a step becomes. ``again``: an earlier one assigns its name, too."""
    torch, value = use_torch(site), defined(site, step.value, condition, not step.negated)
    if step.own:
        expect_fitting(site, step.value, shape_of(site, step.value))
        return old.with_deep_changes(old.body[0], value=value)
    if isinstance(step.target, ast.Subscript) or not isinstance(step.statement, ast.Assign):
        shown = held_by(site, node.test) == root_of(step.name)
        site.require("computable", not shown, "an arm writes to the tensor that is asked")
    if isinstance(step.target, ast.Subscript):
        site.safe_only_if("in-place", False, f"`{step.name}` is changed in any case")
        site.safe_only_if("fits", is_written_out(step.target.slice), FITS)
        kept = _keeps_for_gradient(site, step.target)
        site.require("computable", not kept, "what is written to is needed for its gradient")
    if isinstance(step.statement, ast.Assign):
        _expect_selectable(site, node, step, again)
        rest = defined(site, step.other or step.target, condition, step.negated)
    else:
        _expect_update(site, node, step)
        rest = cst.Integer(str(NEUTRAL[type(getattr(step.statement, "op", ast.Add()))]))
    if isinstance(step.statement, ast.Expr):
        asked = call(f"{torch}.logical_not", condition) if step.negated else condition
        return old.with_changes(body=[cst.Expr(call(f"{step.name}.masked_fill_", asked, rest))])
    arms = (rest, value) if step.negated else (value, rest)
    chosen = call(f"{torch}.where", condition, *arms)
    changed = old.body[0]
    kinds = _before(site, node, step), site.ask.known(step.value)
    numbers = not any(each.must_be(Type.TENSOR) for each in kinds)
    if isinstance(changed, cst.AugAssign) and numbers:
        sign = code(changed.operator).strip().removesuffix("=")  # numbers are not changed in place
        new = expression(f"{step.name} {sign} {{chosen}}", chosen=chosen)
        return old.with_changes(body=assign(step.name, new).body)
    return old.with_deep_changes(changed, value=chosen)


def _expect_update(site: Site, node: ast.If, step: Step) -> None:
    """What changes the value of a name can be computed in any case."""
    kinds = _before(site, node, step), site.ask.known(step.value)
    known = all(each.must_be(Type.TENSOR | Type.NUMBER) for each in kinds)
    site.require("updated", known, f"{step.name} is not certainly a tensor or a number")
    if not any(each.must_be(Type.TENSOR) for each in kinds):
        _expect_no_updates(site, node, step.name)
    site.safe_only_if("number", kinds[0].must_be(Type.TENSOR), NUMBER)
    if not isinstance(step.statement, ast.Expr):
        expect_fitting(site, step.value, shape_of(site, step.value))
    site.safe_only_if("in-place", False, f"`{step.name}` is changed in any case")


def _expect_no_updates(site: Site, node: ast.If, name: str) -> None:
    """Nothing else changes by ``+=`` what was a number, and became a tensor of numbers: that is
    changed in place, for all that hold it, and its dtype stays.
    """
    inside = set(ast.walk(node))
    nodes = [each for each in all_nodes(site.function or node) if isinstance(each, ast.AugAssign)]
    others = [it for it in nodes if it not in inside and ast.unparse(it.target) == name]
    site.require("updated", not others, f"{name} may be a number, which is changed elsewhere, too")


def _before(site: Site, node: ast.If, step: Step) -> Known:
    """What is known of what an arm changes, in front of the branch."""
    if isinstance(step.target, ast.Subscript):
        owner = site.ask.known(step.target.value)
        return TENSOR if owner.must_be(Type.TENSOR) else Known(Type.NONE)
    return site.ask.known_at(step.name, node)


def _expect_selectable(site: Site, node: ast.If, step: Step, again: bool) -> None:
    """Both values are tensors of one shape, which can be computed in any case."""
    name, value = step.name, step.value
    other, given = step.other, site.ask.known(value)
    if other is None:
        asked = again or name in _asked(node.test)
        before = TENSOR if asked else _before(site, node, step)
        if before.types == Type.ANYTHING:
            before = TENSOR if _goes_on(site, node, step) else Known(Type.NONE)
            site.safe_only_if("held", False, HELD)
        shape = SINGLE if before.rank == 0 else _shape_before(site, node, name)
    else:
        before = site.ask.known(other)
        shape = shape_of(site, other)
        expect_fitting(site, other, shape)
    expect_tensors(site, before, given)
    changes = isinstance(step.statement, ast.AugAssign)
    related = changes or are_related(site, value, shape, name * (other is None))
    site.require("updates", related, UNRELATED)
    expect_fitting(site, value, shape, () if again else (before.rank, given.rank))


_ASSIGNED = (ast.Assign, ast.AugAssign)


def _keeps_for_gradient(site: Site, place: ast.Subscript) -> bool:
    """Whether the gradient of what an arm assigns may need a tensor that is written to there."""
    inside = [each for each in ast.walk(site.statement) if isinstance(each, _ASSIGNED)]
    # Where the tensor itself gets a new value, the old one is not written to.
    own = f"{ast.unparse(place.value)} ="
    assigned = [each.value for each in inside if not ast.unparse(each).startswith(own)]
    for each in (inner for value in assigned for inner in ast.walk(value)):
        scaled = isinstance(each, ast.BinOp) and isinstance(each.right, ast.Constant)
        plain = (ast.Add, ast.Sub, ast.Mult, ast.Div) if scaled else (ast.Add, ast.Sub)
        linear = isinstance(each, ast.BinOp) and isinstance(each.op, plain)
        needs = isinstance(each, (ast.BinOp, ast.Call)) and not linear
        if needs and any(dotted(part) == dotted(place.value) for part in ast.walk(each)):
            return True
    return False


_PARTIAL = "an arm may divide by zero, or the like, when it is not taken"


def _goes_on(site: Site, node: ast.If, step: Step) -> bool:
    """Whether a name holds something, which its new value is computed of or is a tensor, too."""
    read = any(isinstance(it, ast.Name) and it.id == step.name for it in ast.walk(step.value))
    return is_held(site, step.name, node) and (read or site.ask.is_tensor(step.value))


def _asked(test: ast.expr) -> set[str]:
    """The names that a condition asks what only tensors can be asked."""
    calls = (asked_of(node) for node in ast.walk(test) if isinstance(node, ast.Call))
    return {node.id for node in calls if isinstance(node, ast.Name)}


def _shape_before(site: Site, node: ast.If, name: str) -> str | None:
    """The shape of what a name holds in front of the branch."""
    found = site.ask.definitions.reaching_at(name, node)
    value = found[0].value if len(found) == 1 else None
    if value is not None and site.ask.same_value(value, node):
        return shape_of(site, value) or name
    return ONE if name in single_elements(node.test) else name


def _returns(
    site: Site, node: ast.If, condition: cst.BaseExpression, statics: list[ast.expr]
) -> None:
    """Select what is returned."""
    last = node.orelse or site.behind(node)[:1]
    found = [*node.body, *last]
    values = [each.value for each in found if isinstance(each, ast.Return) and each.value]
    single = len(node.body) == 1 and len(found) == len(values) == 2 and not statics
    site.require("single-return", single, "the branch does more than return one value")
    then, otherwise = values
    condition, lines = _named(site, condition, values)
    value = _either(site, condition, then, otherwise)
    lines.append(cst.SimpleStatementLine([cst.Return(value)]))
    if node.orelse:
        site.put_branch(node, lines)
    else:
        site.expect_comments([node, last[0]], lines)
        site.put_statements([node, last[0]], lines)


def _selects(
    site: Site, node: ast.IfExp, condition: cst.BaseExpression, statics: list[ast.expr]
) -> None:
    """Select the value of a conditional expression."""
    condition, lines = _named(site, condition, [node.body, node.orelse])
    value = _either(site, condition, node.body, node.orelse)
    if statics:
        test = conjunction([site.expression_node(part) for part in statics])
        value = grouped(cst.IfExp(test, value, site.expression_node(node.orelse)))
    if not lines:
        site.put(node, value)
        return
    statement = site.statement
    whole = isinstance(statement, (ast.Assign, ast.Return)) and statement.value is node
    site.require("computable", whole and not statics, _PARTIAL)
    line = cst.ensure_type(site.statement_node(statement), cst.SimpleStatementLine)
    lines.append(line.with_deep_changes(line.body[0], value=value))
    site.expect_comments([statement], lines)
    site.put_statements([statement], lines)


def _named(
    site: Site, condition: cst.BaseExpression, arms: list[ast.expr]
) -> tuple[cst.BaseExpression, list[Line]]:
    """A condition, under a name where arms need it, too, and the lines that give it that."""
    if isinstance(condition, cst.Name) or not any(partial_operands(site, each) for each in arms):
        return condition, []
    name = site.free("chosen")
    return cst.Name(name), [assign(name, condition)]


def _either(
    site: Site, condition: cst.BaseExpression, then: ast.expr, otherwise: ast.expr
) -> cst.BaseExpression:
    """``torch.where`` of two values."""
    one, other = site.ask.known(then), site.ask.known(otherwise)
    expect_tensors(site, one, other)
    one_way = are_related(site, then, shape_of(site, otherwise))
    related = one_way or are_related(site, otherwise, shape_of(site, then))
    site.require("updates", related, UNRELATED)
    expect_fitting(site, then, shape_of(site, otherwise), (one.rank, other.rank))
    expect_fitting(site, otherwise, shape_of(site, then))
    nodes = defined(site, then, condition, True), defined(site, otherwise, condition, False)
    return call(f"{use_torch(site)}.where", condition, *nodes)
