"""Correlated branches: what a variable is where a later test repeats the one of an earlier if
statement.

``if self.training: n = torch.ones(4)`` may leave a number or a tensor in ``n``; behind ``if not
self.training`` it is the number.
"""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import Environment, Fact, Split, State
from pygraph_lint.analysis.syntax.literal_tests import LiteralTest, TestKind, comparison
from pygraph_lint.analysis.syntax.nodes import dotted, walk, without_not

_TRUE = LiteralTest(TestKind.TRUE)


def remember_arms(state: State, node: ast.If, then: Environment, other: Environment) -> None:
    """Keep what the arms of an if statement left behind, where that differs in kind."""
    names = [
        name
        for name, one in then.items()
        if name in other and one is not other[name] and one.kinds != other[name].kinds
    ]
    if not names:
        return
    facts = tuple(_facts(state, node.test, True)), tuple(_facts(state, node.test, False))
    if not any(facts) or _stored(node) & {fact.name for arm in facts for fact in arm}:
        return
    for name in names:
        state.splits[name] = Split(state.env[name], (then[name], other[name]), facts)


def narrowed_by_earlier_branch(
    state: State, node: ast.expr, outcome: bool
) -> list[tuple[str, Value]]:
    """The variables of which a test that came out as ``outcome`` says which arm has run."""
    if not state.splits:
        return []
    known = list(_facts(state, node, outcome))
    found = []
    for name, split in state.splits.items() if known else ():
        if state.env.get(name, v.UNKNOWN_VALUE) != split.joined:
            continue
        for ran, facts in ((1, split.facts[0]), (0, split.facts[1])):
            if any(_contradicts(one, fact) for one in known for fact in facts):
                found.append((name, split.arms[ran]))
                break
    return found


def _facts(state: State, node: ast.expr, outcome: bool) -> list[Fact]:
    """What a condition that came out as ``outcome`` says about names, and about the mode."""
    node, outcome = without_not(node, outcome)
    if isinstance(node, ast.BoolOp):
        if isinstance(node.op, ast.And) != outcome:
            return []
        return [fact for each in node.values for fact in _facts(state, each, outcome)]
    tested, test, positive = comparison(node) or (node, _TRUE, True)
    name = _lasting(tested)
    if not name:
        return []
    outcome = outcome == positive
    if test.how is TestKind.ONE_OF and len(test.among) == 1 and type(test.among[0]) is bool:
        return [Fact(name, _TRUE, outcome == test.among[0], state.env.get(name))]
    return [Fact(name, test, outcome, state.env.get(name))]


def _lasting(node: ast.expr) -> str:
    """A name, or the object's mode; empty for what a call may change."""
    if isinstance(node, ast.Name):
        return node.id
    mode = isinstance(node, ast.Attribute) and node.attr == "training"
    return dotted(node) or "" if mode else ""


def _contradicts(one: Fact, other: Fact) -> bool:
    if one.name != other.name or one.held != other.held:
        return False
    if one.test == other.test:
        return one.outcome != other.outcome
    hows = {one.test.how, other.test.how}
    return one.outcome and other.outcome and hows == {TestKind.NONE, TestKind.TRUE}


def _stored(node: ast.If) -> set[str]:
    """The names and attributes that are bound in an if statement."""
    return {
        dotted(each) or ""
        for statement in (*node.body, *node.orelse)
        for each in walk(statement)
        if isinstance(each, (ast.Name, ast.Attribute)) and not isinstance(each.ctx, ast.Load)
    }
