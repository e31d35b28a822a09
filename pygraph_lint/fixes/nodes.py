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
from collections.abc import Callable, Iterator, Sequence

import libcst as cst

from pygraph_lint.fixes import node_expressions as of
from pygraph_lint.fixes.node_parts import Mismatch, Pair, arguments, each, optional, parameters

Walk = Callable[..., Iterator[Pair]]


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
    walk = _WALKS.get(type(tree))
    if walk is None:
        return []
    try:
        return [pair for pair in walk(tree, node) if pair[0] is not None]
    except (AttributeError, IndexError, ValueError, TypeError) as error:
        kinds = f"{type(tree).__name__} and {type(node).__name__}"
        raise Mismatch(f"{kinds} do not have the same parts: {error}") from error


# --- statements ----------------------------------------------------------------------------------


def statements(body: Sequence[ast.stmt], node: cst.CSTNode) -> Iterator[Pair]:
    """A block's statements; ``node`` is the module, a block, or what stands behind the colon."""
    nodes: list[cst.CSTNode] = []
    lines = getattr(node, "body")  # noqa: B009 - a block of any kind
    for line in lines if isinstance(lines, (list, tuple)) else lines.body:
        nodes += line.body if isinstance(line, cst.SimpleStatementLine) else [line]
    return each(body, nodes)


def _orelse(body: Sequence[ast.stmt], node: cst.CSTNode | None) -> Iterator[Pair]:
    """What stands behind ``else``; an ``elif`` is an ``if`` there."""
    if isinstance(node, cst.If):
        yield body[0], node
    elif isinstance(node, (cst.Else, cst.Finally)):
        yield from statements(body, node.body)


def _parts(names: str) -> Walk:
    """The parts that are one node each, by their names; ``a=b`` where libcst has another name."""
    pairs = [(name, other or name) for name, _, other in (n.partition("=") for n in names.split())]

    def walk(tree: ast.AST, node: cst.CSTNode) -> Iterator[Pair]:
        for name, other in pairs:
            yield from optional(getattr(tree, name), getattr(node, other))

    return walk


def _compound(names: str) -> Walk:
    """The same of what has a block of statements, and perhaps an ``else``. (A pattern of a
    ``match`` is left out.)
    """
    head = _parts(names)

    def walk(tree: ast.AST, node: cst.CSTNode) -> Iterator[Pair]:
        yield from head(tree, node)
        yield from statements(getattr(tree, "body"), getattr(node, "body"))  # noqa: B009
        yield from _orelse(getattr(tree, "orelse", ()), getattr(node, "orelse", None))

    return walk


def _try(tree: ast.Try, node: cst.Try | cst.TryStar) -> Iterator[Pair]:
    yield from statements(tree.body, node.body)
    yield from each(tree.handlers, node.handlers)
    yield from _orelse(tree.orelse, node.orelse)
    yield from _orelse(tree.finalbody, node.finalbody)


def _with(tree: ast.With | ast.AsyncWith, node: cst.With) -> Iterator[Pair]:
    yield from each(tree.items, node.items)
    yield from statements(tree.body, node.body)


def _item(tree: ast.withitem, node: cst.WithItem) -> Iterator[Pair]:
    yield tree.context_expr, node.item
    yield from optional(tree.optional_vars, node.asname and node.asname.name)


def _function(
    tree: ast.FunctionDef | ast.AsyncFunctionDef, node: cst.FunctionDef
) -> Iterator[Pair]:
    yield from each(tree.decorator_list, [one.decorator for one in node.decorators])
    yield from _type_parameters(tree, node)
    yield from parameters(tree.args, node.params)
    yield from optional(tree.returns, node.returns and node.returns.annotation)
    yield from statements(tree.body, node.body)


def _lambda(tree: ast.Lambda, node: cst.Lambda) -> Iterator[Pair]:
    yield from parameters(tree.args, node.params)
    yield tree.body, node.body


def _argument(tree: ast.arg, node: cst.Param) -> Iterator[Pair]:
    if tree.annotation is not None and node.annotation is not None:
        value: cst.BaseExpression = node.annotation.annotation
        yield tree.annotation, value


def _class(tree: ast.ClassDef, node: cst.ClassDef) -> Iterator[Pair]:
    yield from each(tree.decorator_list, [one.decorator for one in node.decorators])
    yield from _type_parameters(tree, node)
    yield from arguments(tree.bases, tree.keywords, [*node.bases, *node.keywords])
    yield from statements(tree.body, node.body)


def _type_parameters(tree: ast.AST, node: cst.FunctionDef | cst.ClassDef) -> Iterator[Pair]:
    if node.type_parameters is not None:
        yield from each(getattr(tree, "type_params"), node.type_parameters.params)  # noqa: B009


def _assign(tree: ast.Assign, node: cst.Assign) -> Iterator[Pair]:
    yield from each(tree.targets, [one.target for one in node.targets])
    yield tree.value, node.value


def _annotated(tree: ast.AnnAssign, node: cst.AnnAssign) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.annotation, node.annotation.annotation
    yield from optional(tree.value, node.value)


def _delete(tree: ast.Delete, node: cst.Del) -> Iterator[Pair]:
    target = node.target
    if isinstance(target, cst.Tuple) and not (len(tree.targets) == 1 and target.lpar):
        yield from each(tree.targets, [one.value for one in target.elements])
    else:
        yield from each(tree.targets, [target])


def _value(tree: ast.AST, node: cst.CSTNode) -> Iterator[Pair]:
    """A node whose only part is called ``value`` in both trees."""
    part: cst.CSTNode | cst.From | None = getattr(node, "value", None)
    yield from optional(
        getattr(tree, "value", None), part.item if isinstance(part, cst.From) else part
    )


def _raise(tree: ast.Raise, node: cst.Raise) -> Iterator[Pair]:
    yield from optional(tree.exc, node.exc)
    yield from optional(tree.cause, node.cause and node.cause.item)


def _import(tree: ast.Import | ast.ImportFrom, node: cst.Import | cst.ImportFrom) -> Iterator[Pair]:
    if not isinstance(node.names, cst.ImportStar):
        yield from each(tree.names, node.names)


def _match(tree: ast.Match, node: cst.Match) -> Iterator[Pair]:
    yield tree.subject, node.subject
    yield from each(tree.cases, node.cases)


_WALKS: dict[type[ast.AST], Walk] = {
    ast.Module: lambda tree, node: statements(tree.body, node),
    ast.If: _compound("test"),
    ast.While: _compound("test"),
    ast.For: _compound("target iter"),
    ast.AsyncFor: _compound("target iter"),
    ast.Try: _try,
    ast.ExceptHandler: _compound("type"),
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.withitem: _item,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.arg: _argument,
    ast.ClassDef: _class,
    ast.keyword: _value,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _parts("target value"),
    ast.Delete: _delete,
    ast.Expr: _value,
    ast.Return: _value,
    ast.Attribute: _value,
    ast.Yield: _value,
    ast.YieldFrom: _value,
    ast.Raise: _raise,
    ast.Assert: _parts("test msg"),
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Match: _match,
    ast.match_case: _compound("guard"),
    ast.Call: of.walk_call,
    ast.BoolOp: of.walk_bool,
    ast.BinOp: _parts("left right"),
    ast.UnaryOp: _parts("operand=expression"),
    ast.Compare: of.walk_compare,
    ast.IfExp: _parts("test body orelse"),
    ast.NamedExpr: _parts("target value"),
    ast.Await: _parts("value=expression"),
    ast.Starred: of.walk_starred,
    ast.Tuple: of.walk_sequence,
    ast.List: of.walk_sequence,
    ast.Set: of.walk_sequence,
    ast.Subscript: of.walk_subscript,
    ast.Slice: _parts("lower upper step"),
    ast.Dict: of.walk_dict,
    ast.ListComp: of.walk_comprehension,
    ast.SetComp: of.walk_comprehension,
    ast.GeneratorExp: of.walk_comprehension,
    ast.DictComp: of.walk_dict_comprehension,
    ast.comprehension: of.walk_generator,
    ast.JoinedStr: of.walk_formatted,
    ast.FormattedValue: of.walk_formatted_value,
}
if hasattr(ast, "TryStar"):  # Python 3.11
    _WALKS[ast.TryStar] = _try
if hasattr(ast, "TypeAlias"):  # Python 3.12
    _WALKS[ast.TypeAlias] = _parts("name value")
