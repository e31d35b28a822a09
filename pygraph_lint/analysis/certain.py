"""What is certain of a value. The analysis also guesses, which is good enough for a finding, and
not for a change of the code.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from pygraph_lint.analysis.asking import Asking
from pygraph_lint.analysis.known import UNKNOWN, Known, Type
from pygraph_lint.analysis.statement_graph import FUNCTIONS, default_of

_PLAIN = (
    Type.NUMBER | Type.TEXT | Type.NONE | Type.SEQUENCE | Type.MAPPING | Type.DEVICE | Type.DTYPE
)
_ANNOTATED = {"int": "int", "float": "float", "bool": "bool"}
# Methods that objects of other kinds have, too.
_COMMON = frozenset(("size", "dim", "numel", "nelement"))
# What is only read from a tensor.
_PROVING = frozenset(("shape", "device", "dtype", "ndim", "is_cuda", "requires_grad", "unsqueeze"))


def certain(ask: Asking, node: ast.expr, known: Known) -> Known:
    """What is certain of the value of an expression, of which ``known`` was worked out."""
    if isinstance(node, ast.Name):
        return _held(ask, node, known)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        plain = all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        return known if plain else _number_of(ask, sides, known)
    if isinstance(node, ast.BinOp):
        return _number_of(ask, [node.left, node.right], known)
    if isinstance(node, ast.BoolOp):
        return _number_of(ask, node.values, known)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        return _number_of(ask, [node.operand], known)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        asked = node.func.attr in _COMMON and ask.callee(node) is None
        tensor = ask.known(node.func.value).must_be(Type.TENSOR | Type.NONE)
        return UNKNOWN if asked and not tensor else known
    return known


def _number_of(ask: Asking, parts: list[ast.expr], known: Known) -> Known:
    """What is made of parts is a number only if they are numbers or the like for certain: tensors
    and other objects have operators of their own.
    """
    if not known.must_be(Type.NUMBER) or all(ask.known(part).must_be(_PLAIN) for part in parts):
        return known
    return UNKNOWN


def _held(ask: Asking, name: ast.Name, known: Known) -> Known:
    """A parameter annotated as a number is one; ``q.size()`` alone does not make q a tensor."""
    if f"`{name.id}` is used as a tensor: {name.id}." in known.evidence:
        return known if shown(name.id, ask.scope(name)) else UNKNOWN
    if known.types != Type.ANYTHING:
        return known
    found = ask.definitions.reaching(name)
    kinds = {_annotated(ask, each.node) for each in found}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return replace(known, types=Type.NUMBER, dtype=kind) if kind else known


def _annotated(ask: Asking, node: ast.AST) -> str:
    """The kind of number that a parameter is by its annotation, and by its default."""
    note = node.annotation if isinstance(node, ast.arg) else None
    if not isinstance(node, ast.arg) or not isinstance(note, ast.Name):
        return ""
    function = ask.parent(node)
    while function is not None and not isinstance(function, FUNCTIONS):
        function = ask.parent(function)
    default = None if function is None else default_of(function, node.arg)
    is_none = isinstance(default, ast.Constant) and default.value is None
    kind = _ANNOTATED.get(note.id, "")
    return kind if not is_none and ask.qualified(note) == f"builtins.{kind}" else ""


def of_place(place: str, scope: ast.AST, known: Known) -> Known:
    """What is certain of what a name holds somewhere in a function."""
    guessed = f"`{place}` is used as a tensor: {place}." in known.evidence
    return UNKNOWN if guessed and not shown(place, scope) else known


def shown(name: str, scope: ast.AST) -> bool:
    """Whether something is read from a name that only tensors have."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in _PROVING
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(scope)
    )
