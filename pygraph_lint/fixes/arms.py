"""The arms of a branch as steps that one after the other do what the arm taken does: each name gets
its value, or keeps what it holds.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.guards import changes_something, says
from pygraph_lint.fixes.names import loads, shared, stores
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.site import Site


class Step(NamedTuple):
    """What a statement of an arm assigns, and what the other arm does at the same time.

    ``then`` and ``otherwise`` are the values of the two arms; where one of them is None, that arm
    leaves the name alone, where both are, the statement only says something. ``own``: the name
    means nothing outside its arm.
    """

    statement: ast.stmt
    name: str = ""
    then: ast.expr | None = None
    otherwise: ast.expr | None = None
    own: bool = False

    @property
    def value(self) -> ast.expr:
        """The value of the arm that the statement stands in."""
        value = self.then if self.then is not None else self.otherwise
        assert value is not None
        return value


def steps(site: Site, node: ast.If) -> list[Step]:
    """Both arms in one order. Raises Declined where they do more than assign names, and where the
    first one does more than that and say something.
    """
    first = [_step(site, node, each, node.body) for each in node.body]
    rest = [_step(site, node, each, node.orelse) for each in node.orelse]
    if any(not each.name for each in rest):
        raise Declined("the else says something")
    found: list[Step] = []
    for each in first:
        same = (i for i, other in enumerate(rest) if _together(each, other))
        index = next(same, None)
        if index is not None:
            found += [_turned(other) for other in rest[:index]]
            each = each._replace(otherwise=rest[index].then, own=False)
            rest = rest[index + 1 :]
        found.append(each)
    return [*found, *map(_turned, rest)]


def _turned(step: Step) -> Step:
    """The step of the other arm."""
    return step._replace(then=None, otherwise=step.then)


def _together(one: Step, other: Step) -> bool:
    plain = all(isinstance(each.statement, ast.Assign) for each in (one, other))
    return bool(one.name) and one.name == other.name and plain


def _step(site: Site, node: ast.If, statement: ast.stmt, arm: list[ast.stmt]) -> Step:
    if says(site, statement, False) and not changes_something(statement):
        return Step(statement)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AugAssign) and type(statement.op) in NEUTRAL:
        targets = [statement.target]
    name = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
    value = getattr(statement, "value", None)
    if not name or not isinstance(value, ast.expr):
        raise Declined("a branch does more than assign names")
    said = [each for each in arm if says(site, each, False)]
    for_said = bool(said) and _is_within(site, name, [*said, statement])
    if for_said and not changes_something(statement):
        return Step(statement)
    return Step(statement, name, value, own=_is_within(site, name, arm))


#: What changes nothing, by operator.
NEUTRAL: dict[type[ast.operator], int] = {ast.Add: 0, ast.Sub: 0, ast.Mult: 1, ast.Div: 1}


def _is_within(site: Site, name: str, statements: list[ast.stmt]) -> bool:
    """Whether a name is one of the function's own that only these statements mean."""
    if site.function is None or shared(site.function, name):
        return False
    inside = {each for statement in statements for each in ast.walk(statement)}
    return inside.issuperset([*stores(site.function, name), *loads(site.function, name)])
