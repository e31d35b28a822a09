"""How many dimensions a tensor has, where the code around a place says so."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.flow import binding
from pygraph_lint.fixes.names import dotted, parameters
from pygraph_lint.fixes.proposal import Proposal

_SIZED = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "rand", "randn"))
_RESHAPING = frozenset(("view", "reshape", "expand"))
_ALIKE = frozenset(
    f"torch.{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn")
)


def rank(proposal: Proposal, statement: ast.stmt, node: ast.expr) -> int | None:
    """The number of dimensions of an expression at ``statement``; None where it is not written.

    Written are ``t.view(a, -1)`` and the sizes given to a factory.
    """
    if isinstance(node, ast.Name):
        made = binding(proposal, statement, node.id)
        return None if made is None else rank(proposal, made, made.value)
    if not isinstance(node, ast.Call):
        return None
    name = proposal.names.callee(node)
    if name == "torch.full":
        sizes = [item.value for item in node.keywords if item.arg == "size"] or node.args[:1]
        return _length(sizes)
    if name in _SIZED:
        return _given_sizes(node.args)
    if name is None and isinstance(node.func, ast.Attribute) and node.func.attr in _RESHAPING:
        return _given_sizes(node.args)
    return None


def _length(sizes: list[ast.expr]) -> int | None:
    """The length of the only size, where it is a tuple or list written out."""
    only = sizes[0] if len(sizes) == 1 else None
    if not isinstance(only, (ast.Tuple, ast.List)):
        return None
    return None if any(isinstance(item, ast.Starred) for item in only.elts) else len(only.elts)


def _given_sizes(sizes: list[ast.expr]) -> int | None:
    """The same for sizes given one by one, or as one sequence."""
    if len(sizes) == 1:
        return _length(sizes)
    starred = any(isinstance(item, ast.Starred) for item in sizes)
    return None if starred or not sizes else len(sizes)


def made_like(proposal: Proposal, statement: ast.stmt, name: str) -> str | None:
    """The name whose shape ``name`` was given at its making (``zeros_like``), if that is seen."""
    made = binding(proposal, statement, name)
    if made is None or proposal.names.callee(made.value) not in _ALIKE:
        return None
    assert isinstance(made.value, ast.Call)
    return dotted(made.value.args[0]) if made.value.args else None


def compared(proposal: Proposal, statement: ast.stmt, node: ast.expr) -> str | None:
    """The one name that a mask compares with numbers, so that it has that tensor's shape."""
    if isinstance(node, ast.Name):
        made = binding(proposal, statement, node.id)
        return None if made is None else compared(proposal, made, made.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return compared(proposal, statement, node.operand)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        left, right = (compared(proposal, statement, side) for side in (node.left, node.right))
        return left if left == right else None
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return None
    plain = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
    if not isinstance(node.ops[0], plain) or not _number(proposal, node.comparators[0]):
        return None
    return dotted(node.left)


def _number(proposal: Proposal, node: ast.expr) -> bool:
    """A literal number, or a parameter that is one by default."""
    if isinstance(node, ast.UnaryOp):
        return _number(proposal, node.operand)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float))
    function = proposal.function
    if not isinstance(node, ast.Name) or function is None:
        return False
    arguments = function.args
    ordered = [*arguments.posonlyargs, *arguments.args]
    defaults = dict(zip(reversed(ordered), reversed(arguments.defaults), strict=False))
    pairs = dict(zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True))
    given = {item.arg: defaults.get(item, pairs.get(item)) for item in parameters(function)}
    default = given.get(node.id)
    return isinstance(default, ast.Constant) and isinstance(default.value, (int, float))
