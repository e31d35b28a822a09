"""What is proven of a value. The analysis also guesses, which is good enough for a finding, and not
for a change of the code.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from pygraph_lint.analysis.control_flow.statement_graph import FUNCTIONS, defaults
from pygraph_lint.analysis.queries.interface import UNKNOWN, Known, Queries, Type
from pygraph_lint.analysis.syntax.nodes import is_constant, method_name

_PLAIN = (
    Type.NUMBER | Type.TEXT | Type.NONE | Type.SEQUENCE | Type.MAPPING | Type.DEVICE | Type.DTYPE
)
_ANNOTATED = {"int": "int", "float": "float", "bool": "bool"}
# Methods that objects of other kinds have, too.
_COMMON = frozenset(("size", "dim", "numel", "nelement"))
# What is only read from a tensor.
_PROVING = frozenset(("shape", "device", "dtype", "ndim", "is_cuda", "requires_grad", "unsqueeze"))


def proven(ask: Queries, node: ast.expr, known: Known) -> Known:
    """What is certain of the value of an expression, of which ``known`` was worked out."""
    if isinstance(node, ast.Name):
        return _held(ask, node, known)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        plain = all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        return known if plain else _number_of(ask, sides, known)
    if isinstance(node, ast.BinOp):
        found = _number_of(ask, [node.left, node.right], known)
        real = isinstance(node.op, ast.Div) and not _may_be_complex(ask, [node.left, node.right])
        return found if real or not isinstance(node.op, ast.Div) else replace(found, dtype="")
    if isinstance(node, ast.BoolOp):
        return _number_of(ask, node.values, known)
    if isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.Not):
        found = _number_of(ask, [node.operand], known)
        same = not isinstance(node.op, ast.Invert) or ask.known(node.operand).dtype == found.dtype
        return found if same else replace(found, dtype="")
    if isinstance(node, ast.Attribute) and node.attr == "grad":
        return UNKNOWN
    return _called(ask, node, known) if isinstance(node, ast.Call) else known


def _called(ask: Queries, call: ast.Call, known: Known) -> Known:
    """What a call gives, without what the analysis takes for granted of all functions of torch."""
    name = ask.callee(call)
    last = (name or method_name(call)).rpartition(".")[2]
    method = isinstance(call.func, ast.Attribute) and name is None
    operands = [call.func.value] if isinstance(call.func, ast.Attribute) and method else []
    operands += call.args
    if method and last in _COMMON:
        return known if ask.known(operands[0]).must_be(Type.TENSOR | Type.NONE) else UNKNOWN
    if last == "tolist" and operands and not ask.known(operands[0]).rank:
        return UNKNOWN  # a number, of a tensor without dimensions
    if known.must_be(Type.TENSOR) and (last in _NO_TENSOR or last.startswith(_ASKING)):
        return UNKNOWN
    if known.dtype and last in _REAL_OF_REAL | _KEEPING | _TRUTHS and operands:
        kinds = {ask.known(each).dtype for each in operands[: 2 if last in _PAIRS else 1]}
        wanted = {"bool", "float"} if last in _TRUTHS else {"float"}
        wanted |= {"int", "bool"} if last in _REAL_OF_REAL else set()
        return known if kinds <= wanted else replace(known, dtype="")
    return known


def _may_be_complex(ask: Queries, parts: list[ast.expr]) -> bool:
    return not all(ask.known(part).dtype in ("float", "int", "bool") for part in parts)


# These give no tensor, though they are functions or methods of torch that are handed one.
_NO_TENSOR = frozenset(
    (
        *("cudnn_is_acceptable", "geqrf", "get_device", "gradient", "pca_lowrank", "svd_lowrank"),
        *("typename", "unbind_copy", "const_data_ptr", "dense_dim", "sparse_dim", "dim_order"),
        *("type", "backward", "atleast_1d", "atleast_2d", "atleast_3d", "adaptive_max_pool1d"),
        *("fbgemm_linear_quantize_weight", "prepare_multiprocessing_environment", "DType"),
    )
)
_ASKING = ("is_", "sym_", "has_")
# The result is real and floating if the operand is real, has the operand's kind, is a truth value
# (which is a uint8 where the operand is one).
_REAL_OF_REAL = frozenset(("exp", "log", "sqrt", "sigmoid", "mean", "normal"))
_KEEPING = frozenset(("relu", "matmul", "mm", "bmm"))
_PAIRS = frozenset(("matmul", "mm", "bmm"))
_TRUTHS = frozenset(("any", "all"))


def _number_of(ask: Queries, parts: list[ast.expr], known: Known) -> Known:
    """What is made of parts is a number only if they are numbers or the like for certain: tensors
    and other objects have operators of their own.
    """
    if not known.must_be(Type.NUMBER) or all(ask.known(part).must_be(_PLAIN) for part in parts):
        return known
    return UNKNOWN


def _held(ask: Queries, name: ast.Name, known: Known) -> Known:
    """A parameter annotated as a number is one; ``q.size()`` alone does not make q a tensor."""
    if f"`{name.id}` is used as a tensor: {name.id}." in known.evidence:
        return (
            known if is_read_as_tensor(name.id, ask.scope(name)) else _guessed(ask, name.id, known)
        )
    found = ask.definitions.reaching(name)
    if known.types != Type.ANYTHING:
        return _as_defined(ask, [each.value for each in found], known)
    kinds = {_annotated(ask, each.node) for each in found}
    kind = kinds.pop() if len(kinds) == 1 else ""
    return replace(known, types=Type.NUMBER, dtype=kind) if kind else known


def _annotated(ask: Queries, node: ast.AST) -> str:
    """The kind of number that a parameter is by its annotation, and by its default."""
    note = node.annotation if isinstance(node, ast.arg) else None
    if not isinstance(node, ast.arg) or not isinstance(note, ast.Name):
        return ""
    function = ask.parent(node)
    while function is not None and not isinstance(function, FUNCTIONS):
        function = ask.parent(function)
    default = None if function is None else defaults(function).get(node.arg)
    is_none = is_constant(default, None)
    kind = _ANNOTATED.get(note.id, "")
    return kind if not is_none and ask.qualified(note) == f"builtins.{kind}" else ""


def proven_at(ask: Queries, place: str, at: ast.AST, known: Known) -> Known:
    """What is certain of what a name holds at a place."""
    guessed = f"`{place}` is used as a tensor: {place}." in known.evidence
    if guessed and not is_read_as_tensor(place, ask.scope(at)):
        return _guessed(ask, place, known)
    return _as_defined(ask, [each.value for each in ask.definitions.reaching_at(place, at)], known)


def _guessed(ask: Queries, place: str, known: Known) -> Known:
    """What is taken for a tensor because of how it is used: said only to who believes that."""
    return replace(known if ask.believes else UNKNOWN, believed=known.believed | {place})


def _as_defined(ask: Queries, values: list[ast.expr | None], known: Known) -> Known:
    """What a name holds, whose dtype is certain of the values that it is given."""
    kinds = {ask.known(value).dtype for value in values if value is not None}
    return replace(known, dtype="") if known.dtype and not kinds <= {known.dtype} else known


def is_read_as_tensor(name: str, scope: ast.AST) -> bool:
    """Whether something is read from a name that only tensors have."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in _PROVING
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in ast.walk(scope)
    )
