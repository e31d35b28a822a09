"""Statements that fill a buffer anew with what its constructor put there, and the branch that is
only there for them.

elif isinstance(module, Conv): size = module.size_of_kernel; init.copy_(module.size, size)
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import dotted, loads, pure
from pygraph_lint.fixes.number_kinds import Kinds

_PLAIN = (ast.BinOp, ast.UnaryOp, ast.Subscript, ast.Attribute, ast.Name, ast.Constant, ast.Call)


def written_out(kinds: Kinds, node: ast.expr, owner: str) -> str | None:
    """An expression with its local names replaced by what they hold, and ``owner`` by a mark.

    Numbers count as themselves where torch.tensor is around them. None where a part is not plain
    arithmetic on attributes.
    """
    if not isinstance(node, _PLAIN):
        return None
    if isinstance(node, ast.Constant):
        return repr(node.value)
    if isinstance(node, ast.Name):
        if node.id == owner:
            return "$"
        bound = kinds.binding(node)
        return written_out(kinds, bound, owner) if isinstance(bound, ast.expr) else None
    if isinstance(node, ast.Call):
        return written_out(kinds, node.args[0], owner) if kinds.wraps(node) else None
    if isinstance(node, ast.Attribute):
        parts, frame = [node.value], "{}." + node.attr
    elif isinstance(node, ast.Subscript):
        parts, frame = [node.value, node.slice], "{}[{}]"
    elif isinstance(node, ast.UnaryOp):
        parts, frame = [node.operand], f"({type(node.op).__name__} {{}})"
    else:
        parts, frame = [node.left, node.right], f"({{}} {type(node.op).__name__} {{}})"
    found = [written_out(kinds, part, owner) for part in parts]
    known = [part for part in found if part is not None]
    return frame.format(*known) if len(known) == len(found) else None


def only_for(branch: ast.If, statements: set[ast.stmt], scope: ast.FunctionDef) -> bool:
    """Whether a branch does nothing else than ``statements``, and computing what they use."""
    inside = {node for part in branch.body for node in ast.walk(part)}
    for statement in branch.body:
        if statement in statements:
            continue
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            return False
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return False
        if any(read not in inside for read in loads(scope, target.id)):
            return False
    return bool(statements & set(branch.body))


def may_go(branch: ast.If, above: dict[ast.AST, ast.AST], name: str, bases: set[str]) -> bool:
    """Whether an ``elif isinstance(x, name)`` can be taken out: what follows in its chain asks only
    for other classes, none of which is one of the ``bases``.
    """
    before = above[branch]
    if not isinstance(before, ast.If) or before.orelse != [branch]:
        return False
    asked = _asked(branch)
    if asked is None or asked[1] != {name}:
        return False
    rest = branch.orelse
    while rest:
        following = rest[0]
        if len(rest) > 1 or not isinstance(following, ast.If):
            return False
        other = _asked(following)
        if other is None or other[0] != asked[0] or other[1] & bases:
            return False
        rest = following.orelse
    return True


def _asked(branch: ast.If) -> tuple[str, set[str]] | None:
    """The name and the classes of ``isinstance(name, classes)``."""
    test = branch.test
    if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return None
    one, classes = test.args
    if not isinstance(one, ast.Name):
        return None
    listed = classes.elts if isinstance(classes, ast.Tuple) else [classes]
    return (one.id, {ast.unparse(item) for item in listed}) if all(map(pure, listed)) else None
