"""The libcst node of each ``ast`` node, and back: both trees of one text, walked side by side.

The analysis speaks of ``ast`` nodes, rewrites replace libcst nodes. Positions are not compared:
they count bytes in one tree and characters in the other, parentheses are part of a node in one of
them only, and f-strings have none before Python 3.12. What is compared is structure: the second
argument of a call is the second argument of that call.

These have no libcst node of their own: ``ast.arguments``, ``ast.Load`` and the like; the tuple of
an index ``x[1, 2]``; an f-string's pieces of text and its format behind the colon; patterns.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import libcst as cst

Pair = tuple[ast.AST, cst.CSTNode]

_LOOP = "target iter body orelse"
_WITH = "items body"
_FUNCTION = "decorator_list=decorators type_params=type_parameters returns body"
# The parts of each kind of node, by the names of the fields; ``a=b`` where libcst has another name.
_FIELDS: dict[str, str] = {
    **dict.fromkeys(("Module", "Lambda"), "body"),
    **dict.fromkeys(("If", "While", "IfExp"), "test body orelse"),
    **dict.fromkeys(("For", "AsyncFor"), _LOOP),
    **dict.fromkeys(("Try", "TryStar"), "body handlers orelse finalbody"),
    "ExceptHandler": "type body",
    **dict.fromkeys(("With", "AsyncWith"), _WITH),
    "withitem": "context_expr=item optional_vars=asname",
    **dict.fromkeys(("FunctionDef", "AsyncFunctionDef"), _FUNCTION),
    "arg": "annotation",
    "ClassDef": "decorator_list=decorators type_params=type_parameters body",
    "Assign": "targets value",
    "AnnAssign": "target annotation value",
    **dict.fromkeys(("AugAssign", "NamedExpr"), "target value"),
    **dict.fromkeys(("Expr", "Return", "Attribute", "Yield", "YieldFrom"), "value"),
    "keyword": "value",
    "TypeAlias": "name value",
    "Raise": "exc cause",
    "Assert": "test msg",
    "Match": "subject cases",
    "match_case": "guard body",
    "Call": "func",
    "BinOp": "left right",
    "UnaryOp": "operand=expression",
    "Compare": "left comparators=comparisons",
    "Await": "value=expression",
    **dict.fromkeys(("Tuple", "List", "Set"), "elts=elements"),
    "Slice": "lower upper step",
    **dict.fromkeys(("ListComp", "SetComp", "GeneratorExp"), "elt generators=for_in"),
    "DictComp": "key value generators=for_in",
    "comprehension": "target iter ifs",
}
_NAMES = {
    kind: [(name, other or name) for name, _, other in (n.partition("=") for n in names.split())]
    for kind, names in _FIELDS.items()
}
# What libcst puts around a part, and where the part is in it.
_AROUND: dict[type[cst.CSTNode], str] = {
    **dict.fromkeys((cst.Module, cst.IndentedBlock), "body"),
    **dict.fromkeys((cst.SimpleStatementLine, cst.SimpleStatementSuite), "body"),
    **dict.fromkeys((cst.Else, cst.Finally), "body"),
    cst.Decorator: "decorator",
    cst.TypeParameters: "params",
    cst.Annotation: "annotation",
    cst.AssignTarget: "target",
    cst.AsName: "name",
    cst.From: "item",
    cst.ComparisonTarget: "comparator",
    cst.CompIf: "test",
    cst.Element: "value",
    cst.SubscriptElement: "slice",
    cst.Index: "value",
}


class Mismatch(Exception):
    """The two trees are not of one text, or hold syntax that this file does not know."""


def pairs(tree: ast.AST, node: cst.CSTNode) -> Iterator[Pair]:
    """Each ``ast`` node below ``tree`` that has a libcst node of its own, with that node.

    ``node`` is the libcst node of ``tree``. Raises Mismatch.
    """
    stack: list[Pair] = [(tree, node)]
    while stack:
        pair = stack.pop()
        yield pair
        stack += children(*pair)


def children(tree: ast.AST, node: cst.CSTNode) -> list[Pair]:
    """The pairs right below a pair. Raises Mismatch."""
    special = _SPECIAL.get(type(tree))
    try:
        found = list(special(tree, node)) if special is not None else []
        for name, other in _NAMES.get(type(tree).__name__, ()):
            found += _each(_trees(getattr(tree, name, None)), _parts(getattr(node, other, None)))
    except (AttributeError, IndexError, ValueError, TypeError) as error:
        kinds = f"{type(tree).__name__} and {type(node).__name__}"
        raise Mismatch(f"{kinds} do not have the same parts: {error}") from error
    return found


def statements(body: Sequence[ast.stmt], node: cst.CSTNode) -> Iterator[Pair]:
    """A block's statements; ``node`` is the module or the block. Raises Mismatch."""
    return _each(body, _parts(node))


def _each(trees: Sequence[ast.AST], nodes: Sequence[cst.CSTNode]) -> Iterator[Pair]:
    if len(trees) != len(nodes):
        raise Mismatch(f"{len(trees)} and {len(nodes)} parts")
    return zip(trees, nodes, strict=True)


def _trees(part: Any) -> list[ast.AST]:
    """The nodes in a field of an ``ast`` node."""
    held = part if isinstance(part, list) else [part]
    return [each for each in held if each is not None]


def _parts(part: object) -> list[cst.CSTNode]:
    """The nodes that ``ast`` has for what is in a field of a libcst node."""
    if isinstance(part, (list, tuple)):
        return [node for each in part for node in _parts(each)]
    if not isinstance(part, cst.CSTNode):
        return []
    if isinstance(part, cst.CompFor):
        return [part, *_parts(part.inner_for_in)]
    if isinstance(part, cst.SubscriptElement) and _is_starred(part):
        return [part]
    name = _AROUND.get(type(part))
    return [part] if name is None else _parts(getattr(part, name))


# --- parts that no name leads to ------------------------------------------------------------------


def _arguments(
    values: Sequence[ast.expr], keywords: Sequence[ast.keyword], nodes: Iterable[cst.Arg]
) -> Iterator[Pair]:
    """The arguments of a call or class: in ``ast`` by kind, in libcst as written."""
    plain: list[cst.CSTNode] = []
    named: list[cst.CSTNode] = []
    for node in nodes:
        if node.keyword is not None or node.star == "**":
            named.append(node)
        else:
            plain.append(node if node.star else node.value)
    return chain(_each(values, plain), _each(keywords, named))


def _parameters(tree: ast.arguments, node: cst.Parameters) -> Iterator[Pair]:
    plain, star = [*node.posonly_params, *node.params], node.star_arg
    listed = star if isinstance(star, cst.Param) else None
    return chain(
        _each([*tree.posonlyargs, *tree.args], plain),
        _each(tree.defaults, _parts([one.default for one in plain])),
        _each(tree.kwonlyargs, node.kwonly_params),
        _each(_trees(tree.kw_defaults), _parts([one.default for one in node.kwonly_params])),
        _each(_trees(tree.vararg), _parts(listed)),
        _each(_trees(tree.kwarg), _parts(node.star_kwarg)),
    )


def _delete(tree: ast.Delete, node: cst.Del) -> Iterator[Pair]:
    target = node.target
    several = isinstance(target, cst.Tuple) and not target.lpar
    return _each(tree.targets, _parts(target.elements if several else target))  # type: ignore[attr-defined]


def _import(tree: ast.Import | ast.ImportFrom, node: cst.Import | cst.ImportFrom) -> Iterator[Pair]:
    if not isinstance(node.names, cst.ImportStar):
        yield from _each(tree.names, node.names)


def _operands(node: cst.BooleanOperation) -> list[cst.BaseExpression]:
    """The operands of ``a and b and c``, which libcst nests to the left."""
    found = [node.right]
    left = node.left
    while (
        isinstance(left, cst.BooleanOperation)
        and not left.lpar
        and type(left.operator) is type(node.operator)
    ):
        found.append(left.right)
        left = left.left
    return [left, *reversed(found)]


def _is_starred(element: cst.SubscriptElement) -> bool:
    return isinstance(element.slice, cst.Index) and bool(element.slice.star)


def _starred(tree: ast.Starred, node: cst.CSTNode) -> Iterator[Pair]:
    holder = node.slice if isinstance(node, cst.SubscriptElement) else node
    return _each([tree.value], _parts(getattr(holder, "value", None)))


def _subscript(tree: ast.Subscript, node: cst.Subscript) -> Iterator[Pair]:
    yield tree.value, node.value
    indices = _parts(node.slice)
    several = len(indices) > 1 or isinstance(node.slice[0].comma, cst.Comma)
    if isinstance(tree.slice, ast.Tuple) and (several or _is_starred(node.slice[0])):
        yield from _each(tree.slice.elts, indices)
    else:
        yield tree.slice, indices[0]


def _dict(tree: ast.Dict, node: cst.Dict) -> Iterator[Pair]:
    keys = [one.key for one in node.elements if isinstance(one, cst.DictElement)]
    yield from _each(_trees(tree.keys), keys)
    yield from _each(tree.values, [one.value for one in node.elements])


def _pieces(node: cst.CSTNode) -> Iterator[object]:
    """The parts of the strings that stand beside each other."""
    if isinstance(node, cst.ConcatenatedString):
        yield from _pieces(node.left)
        yield from _pieces(node.right)
    else:
        yield from getattr(node, "parts", ())


def _formatted(tree: ast.JoinedStr, parts: Iterable[object]) -> Iterator[Pair]:
    """The expressions in an f-string. The text between them has no nodes here."""
    values = [each for each in tree.values if isinstance(each, ast.FormattedValue)]
    return _each(
        values, [each for each in parts if isinstance(each, cst.FormattedStringExpression)]
    )


def _formatted_value(
    tree: ast.FormattedValue, node: cst.FormattedStringExpression
) -> Iterator[Pair]:
    yield tree.value, node.expression
    if isinstance(tree.format_spec, ast.JoinedStr):
        yield from _formatted(tree.format_spec, node.format_spec or ())


_Special = Callable[..., Iterable[Pair]]
_SPECIAL: dict[type[ast.AST], _Special] = {
    ast.FunctionDef: lambda tree, node: _parameters(tree.args, node.params),
    ast.AsyncFunctionDef: lambda tree, node: _parameters(tree.args, node.params),
    ast.Lambda: lambda tree, node: _parameters(tree.args, node.params),
    ast.ClassDef: lambda tree, node: _arguments(
        tree.bases, tree.keywords, [*node.bases, *node.keywords]
    ),
    ast.Call: lambda tree, node: _arguments(tree.args, tree.keywords, node.args),
    ast.Delete: _delete,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.BoolOp: lambda tree, node: _each(tree.values, _operands(node)),
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Dict: _dict,
    ast.JoinedStr: lambda tree, node: _formatted(tree, _pieces(node)),
    ast.FormattedValue: _formatted_value,
}
