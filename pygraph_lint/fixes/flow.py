"""Where a local value comes from and where it goes, as far as the statements around a place show
it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.fixes.names import loads, own_nodes, parents
from pygraph_lint.fixes.proposal import Proposal
from pygraph_lint.fixes.source import FUNCTIONS

# Layers that always return a new, real floating-point tensor, and raise for other inputs.
NORMS = frozenset(
    f"torch.nn.{name}"
    for name in ("LayerNorm", "GroupNorm", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d")
)


def earlier(proposal: Proposal, statement: ast.stmt) -> Iterator[ast.stmt]:
    """Statements that ran before ``statement`` on every way to it, nearest first, inside the
    function.

    Stops in front of a loop or ``try`` around the statement: what ran before may then be another
    turn.
    """
    index = _depth(proposal, statement)
    child: ast.AST = statement
    for parent in reversed(proposal.path[:index]):
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(parent, block, None)
            if isinstance(statements, list) and child in statements:
                yield from reversed(statements[: statements.index(child)])
        if isinstance(parent, (*FUNCTIONS, ast.For, ast.AsyncFor, ast.While, ast.Try)):
            return
        child = parent


def _depth(proposal: Proposal, statement: ast.stmt) -> int:
    """How many nodes on the way to the finding are around a statement in one of their blocks."""
    for index in range(len(proposal.path) - 1, -1, -1):
        if proposal.path[index] is statement:
            return index
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(proposal.path[index], block, None)
            if isinstance(statements, list) and statement in statements:
                return index + 1
    return 0


def binding(proposal: Proposal, statement: ast.stmt, name: str) -> ast.Assign | None:
    """The plain ``name = value`` that gave a name its value at ``statement``, where that is
    certain.
    """
    for before in earlier(proposal, statement):
        if isinstance(before, ast.Assign) and len(before.targets) == 1:
            target = before.targets[0]
            if isinstance(target, ast.Name) and target.id == name:
                return before
        if binds(before, name):
            return None
    return None


def binds(node: ast.AST, name: str) -> bool:
    """Whether a statement, or one inside it, gives a name a new value or removes it."""
    return any(
        isinstance(inner, ast.Name) and inner.id == name and not isinstance(inner.ctx, ast.Load)
        for inner in [node, *own_nodes(node)]
    )


def fresh(proposal: Proposal, statement: ast.stmt, name: str) -> bool:
    """Whether a name holds a new tensor that nothing else refers to at ``statement``.

    Seen only where it is the result of arithmetic or of a normalisation layer and was not handed
    on since.
    """
    bound = binding(proposal, statement, name)
    if bound is None:
        return False
    if not isinstance(bound.value, ast.BinOp) and not is_norm_call(proposal, bound.value):
        return False
    for before in earlier(proposal, statement):
        if before is bound:
            return True
        if any(loads(before, name)):
            return False
    return False


def is_norm_call(proposal: Proposal, value: ast.expr) -> bool:
    """Whether an expression calls ``self.<layer>`` and every ``self.<layer> = ...`` of the class
    makes a norm.
    """
    owner = next((node for node in reversed(proposal.path) if isinstance(node, ast.ClassDef)), None)
    if (
        owner is None
        or not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Attribute)
    ):
        return False
    if not isinstance(value.func.value, ast.Name) or value.func.value.id != "self":
        return False
    made = [
        node.value
        for node in ast.walk(owner)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and target.attr == value.func.attr
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    ]
    return bool(made) and all(proposal.names.callee(node) in NORMS for node in made)


def used_outside(function: ast.AST, name: str, inside: ast.AST) -> bool:
    """Whether the value that ``inside`` gives a name may be read outside it.

    A read behind another assignment of its own block sees that one's value.
    """
    within = set(ast.walk(inside))
    above = parents(function)
    return any(
        load not in within and not _assigned_between(above, inside, load, name)
        for load in loads(function, name)
    )


def _assigned_between(
    above: dict[ast.AST, ast.AST], inside: ast.AST, load: ast.AST, name: str
) -> bool:
    behind = getattr(inside, "end_lineno", 0)
    child = load
    while child in above:
        parent = above[child]
        for block in ("body", "orelse", "finalbody"):
            statements = getattr(parent, block, None)
            if isinstance(statements, list) and child in statements:
                before = statements[: statements.index(child)]
                new = [statement for statement in before if statement.lineno > behind]
                if any(_plainly_binds(statement, name) for statement in new):
                    return True
        if isinstance(parent, FUNCTIONS):
            return False
        child = parent
    return False


def _plainly_binds(statement: ast.stmt, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == name for target in statement.targets
    )
