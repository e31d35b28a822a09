"""The arms of a branch as steps that one after the other do what the arm taken does: each name gets
its value, or keeps what it holds.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.analysis.syntax.nodes import receiver
from pygraph_lint.fixes.engine.names import loads, shared, stores
from pygraph_lint.fixes.engine.site import Declined, Site
from pygraph_lint.fixes.shared.computable import is_place
from pygraph_lint.fixes.shared.guards import changes_something, says


class Step(NamedTuple):
    """What a statement of an arm gives a name or an element; without a name it only says something.

    ``other`` is the value that the other arm gives it at the same time; without one it keeps its
    own there. ``negated``: the statement stands behind ``else``. ``own``: the name means nothing
    outside its arm.
    """

    statement: ast.stmt
    name: str = ""
    target: ast.expr = ast.Constant(None)
    value: ast.expr = ast.Constant(None)
    other: ast.expr | None = None
    negated: bool = False
    own: bool = False


def steps(site: Site, node: ast.If) -> list[Step]:
    """Both arms in one order. Raises Declined where they do more than assign, and where the first
    one does more than that and say something.
    """
    first = [_step(site, each, node.body) for each in node.body]
    rest = [_step(site, each, node.orelse)._replace(negated=True) for each in node.orelse]
    if any(not each.name for each in rest):
        raise Declined("the else says something")
    found: list[Step] = []
    for each in first:
        names = [other.name * isinstance(other.statement, ast.Assign) for other in rest]
        if isinstance(each.statement, ast.Assign) and each.name in names:
            index = names.index(each.name)
            each = each._replace(other=rest[index].value, own=False)
            found, rest = [*found, *rest[:index]], rest[index + 1 :]
        found.append(each)
    return [*found, *rest]


def _step(site: Site, statement: ast.stmt, arm: list[ast.stmt]) -> Step:
    if says(site, statement, False) and not changes_something(statement):
        return Step(statement)
    target, value = _target(statement), getattr(statement, "value", None)
    place = isinstance(target, ast.Subscript) and is_place(site, target.slice)
    if target is None or value is None or not (place or isinstance(target, ast.Name)):
        raise Declined("a branch does more than assign names")
    name = ast.unparse(target)
    if place or isinstance(statement, ast.Expr):
        return Step(statement, name, target, value)
    said = [each for each in arm if says(site, each, False)]
    for_said = bool(said) and _is_within(site, name, [*said, statement])
    if for_said and not changes_something(statement):
        return Step(statement)
    own = isinstance(statement, ast.Assign) and _is_within(site, name, arm)
    return Step(statement, name, target, value, own=own)


def _target(statement: ast.stmt) -> ast.expr | None:
    """What a statement assigns, or fills with zeros; None for other statements."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0]
    if isinstance(statement, ast.AugAssign) and type(statement.op) in NEUTRAL:
        return statement.target
    filled = receiver(getattr(statement, "value", None), ("zero_",))
    return filled if isinstance(statement, ast.Expr) else None


#: What changes nothing, by operator.
NEUTRAL: dict[type, int] = {ast.Add: 0, ast.Sub: 0, ast.Mult: 1, ast.Div: 1}


def _is_within(site: Site, name: str, statements: list[ast.stmt]) -> bool:
    """Whether a name is one of the function's own that only these statements mean."""
    if site.function is None or shared(site.function, name):
        return False
    inside = {each for statement in statements for each in ast.walk(statement)}
    return inside.issuperset([*stores(site.function, name), *loads(site.function, name)])
