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

import libcst as cst

Pair = tuple[ast.AST, cst.CSTNode]


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
    return _each(body, nodes)


def _each(trees: Sequence[ast.AST], nodes: Sequence[cst.CSTNode]) -> Iterator[Pair]:
    if len(trees) != len(nodes):
        raise Mismatch(f"{len(trees)} and {len(nodes)} parts")
    return zip(trees, nodes, strict=True)


def _module(tree: ast.Module, node: cst.Module) -> Iterator[Pair]:
    return statements(tree.body, node)


def _orelse(body: Sequence[ast.stmt], node: cst.CSTNode | None) -> Iterator[Pair]:
    """What stands behind ``else``; an ``elif`` is an ``if`` there."""
    if isinstance(node, cst.If):
        yield body[0], node
    elif isinstance(node, (cst.Else, cst.Finally)):
        yield from statements(body, node.body)


def _if(tree: ast.If, node: cst.If) -> Iterator[Pair]:
    yield tree.test, node.test
    yield from statements(tree.body, node.body)
    yield from _orelse(tree.orelse, node.orelse)


def _while(tree: ast.While, node: cst.While) -> Iterator[Pair]:
    yield tree.test, node.test
    yield from statements(tree.body, node.body)
    yield from _orelse(tree.orelse, node.orelse)


def _for(tree: ast.For | ast.AsyncFor, node: cst.For) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.iter, node.iter
    yield from statements(tree.body, node.body)
    yield from _orelse(tree.orelse, node.orelse)


def _try(tree: ast.Try, node: cst.Try | cst.TryStar) -> Iterator[Pair]:
    yield from statements(tree.body, node.body)
    yield from _each(tree.handlers, node.handlers)
    yield from _orelse(tree.orelse, node.orelse)
    yield from _orelse(tree.finalbody, node.finalbody)


def _handler(tree: ast.ExceptHandler, node: cst.ExceptHandler) -> Iterator[Pair]:
    yield from _optional(tree.type, node.type)
    yield from statements(tree.body, node.body)


def _with(tree: ast.With | ast.AsyncWith, node: cst.With) -> Iterator[Pair]:
    yield from _each(tree.items, node.items)
    yield from statements(tree.body, node.body)


def _item(tree: ast.withitem, node: cst.WithItem) -> Iterator[Pair]:
    yield tree.context_expr, node.item
    yield from _optional(tree.optional_vars, node.asname and node.asname.name)


def _function(
    tree: ast.FunctionDef | ast.AsyncFunctionDef, node: cst.FunctionDef
) -> Iterator[Pair]:
    yield from _each(tree.decorator_list, [one.decorator for one in node.decorators])
    yield from _type_parameters(tree, node)
    yield from _parameters(tree.args, node.params)
    yield from _optional(tree.returns, node.returns and node.returns.annotation)
    yield from statements(tree.body, node.body)


def _lambda(tree: ast.Lambda, node: cst.Lambda) -> Iterator[Pair]:
    yield from _parameters(tree.args, node.params)
    yield tree.body, node.body


def _parameters(tree: ast.arguments, node: cst.Parameters) -> Iterator[Pair]:
    plain = [*node.posonly_params, *node.params]
    yield from _each([*tree.posonlyargs, *tree.args], plain)
    defaults = [one.default for one in plain if one.default is not None]
    yield from _each(tree.defaults, defaults)
    yield from _each(tree.kwonlyargs, node.kwonly_params)
    for value, one in zip(tree.kw_defaults, node.kwonly_params, strict=True):
        yield from _optional(value, one.default)
    star = node.star_arg
    yield from _optional(tree.vararg, star if isinstance(star, cst.Param) else None)
    yield from _optional(tree.kwarg, node.star_kwarg)


def _argument(tree: ast.arg, node: cst.Param) -> Iterator[Pair]:
    if tree.annotation is not None and node.annotation is not None:
        value: cst.BaseExpression = node.annotation.annotation
        yield tree.annotation, value


def _class(tree: ast.ClassDef, node: cst.ClassDef) -> Iterator[Pair]:
    yield from _each(tree.decorator_list, [one.decorator for one in node.decorators])
    yield from _type_parameters(tree, node)
    yield from _arguments(tree.bases, tree.keywords, [*node.bases, *node.keywords])
    yield from statements(tree.body, node.body)


def _type_parameters(tree: ast.AST, node: cst.FunctionDef | cst.ClassDef) -> Iterator[Pair]:
    if node.type_parameters is not None:
        yield from _each(getattr(tree, "type_params"), node.type_parameters.params)  # noqa: B009


def _arguments(
    values: Sequence[ast.expr], keywords: Sequence[ast.keyword], nodes: Iterable[cst.Arg]
) -> Iterator[Pair]:
    """The arguments of a call or class: in ``ast`` by kind, in libcst as written."""
    plain: Iterator[ast.AST] = iter(values)
    named: Iterator[ast.AST] = iter(keywords)
    for node in nodes:
        tree = next(named if node.keyword is not None or node.star == "**" else plain, None)
        if tree is None:
            raise Mismatch("not as many arguments")
        yield tree, node if node.star or isinstance(tree, ast.keyword) else node.value
    if next(plain, None) is not None or next(named, None) is not None:
        raise Mismatch("not as many arguments")


def _keyword(tree: ast.keyword, node: cst.Arg) -> Iterator[Pair]:
    yield tree.value, node.value


def _assign(tree: ast.Assign, node: cst.Assign) -> Iterator[Pair]:
    yield from _each(tree.targets, [one.target for one in node.targets])
    yield tree.value, node.value


def _annotated(tree: ast.AnnAssign, node: cst.AnnAssign) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.annotation, node.annotation.annotation
    yield from _optional(tree.value, node.value)


def _augmented(tree: ast.AugAssign, node: cst.AugAssign) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.value, node.value


def _delete(tree: ast.Delete, node: cst.Del) -> Iterator[Pair]:
    target = node.target
    if isinstance(target, cst.Tuple) and not (len(tree.targets) == 1 and target.lpar):
        yield from _each(tree.targets, [one.value for one in target.elements])
    else:
        yield from _each(tree.targets, [target])


def _value(tree: ast.AST, node: cst.CSTNode) -> Iterator[Pair]:
    """A node whose only part is called ``value`` in both trees."""
    part: cst.CSTNode | cst.From | None = getattr(node, "value", None)
    yield from _optional(
        getattr(tree, "value", None), part.item if isinstance(part, cst.From) else part
    )


def _raise(tree: ast.Raise, node: cst.Raise) -> Iterator[Pair]:
    yield from _optional(tree.exc, node.exc)
    yield from _optional(tree.cause, node.cause and node.cause.item)


def _assert(tree: ast.Assert, node: cst.Assert) -> Iterator[Pair]:
    yield tree.test, node.test
    yield from _optional(tree.msg, node.msg)


def _import(tree: ast.Import | ast.ImportFrom, node: cst.Import | cst.ImportFrom) -> Iterator[Pair]:
    if not isinstance(node.names, cst.ImportStar):
        yield from _each(tree.names, node.names)


def _match(tree: ast.Match, node: cst.Match) -> Iterator[Pair]:
    yield tree.subject, node.subject
    yield from _each(tree.cases, node.cases)


def _case(tree: ast.match_case, node: cst.MatchCase) -> Iterator[Pair]:
    """A case; expressions inside of its pattern are left out."""
    yield from _optional(tree.guard, node.guard)
    yield from statements(tree.body, node.body)


def _type_alias(tree: ast.AST, node: cst.TypeAlias) -> Iterator[Pair]:
    yield getattr(tree, "name"), node.name  # noqa: B009 - new in 3.12
    yield getattr(tree, "value"), node.value  # noqa: B009


def _optional(tree: ast.AST | None, node: cst.CSTNode | None) -> Iterator[Pair]:
    if (tree is None) != (node is None):
        raise Mismatch("a part that only one tree has")
    if tree is not None and node is not None:
        yield tree, node


# --- expressions ---------------------------------------------------------------------------------


def _call(tree: ast.Call, node: cst.Call) -> Iterator[Pair]:
    yield tree.func, node.func
    yield from _arguments(tree.args, tree.keywords, node.args)


def _bool(tree: ast.BoolOp, node: cst.BooleanOperation) -> Iterator[Pair]:
    return _each(tree.values, operands(node))


def operands(node: cst.BooleanOperation) -> list[cst.BaseExpression]:
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


def _binary(tree: ast.BinOp, node: cst.BinaryOperation) -> Iterator[Pair]:
    yield tree.left, node.left
    yield tree.right, node.right


def _unary(tree: ast.UnaryOp, node: cst.UnaryOperation) -> Iterator[Pair]:
    yield tree.operand, node.expression


def _compare(tree: ast.Compare, node: cst.Comparison) -> Iterator[Pair]:
    yield tree.left, node.left
    yield from _each(tree.comparators, [one.comparator for one in node.comparisons])


def _conditional(tree: ast.IfExp, node: cst.IfExp) -> Iterator[Pair]:
    yield tree.test, node.test
    yield tree.body, node.body
    yield tree.orelse, node.orelse


def _named(tree: ast.NamedExpr, node: cst.NamedExpr) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.value, node.value


def _await(tree: ast.Await, node: cst.Await) -> Iterator[Pair]:
    yield tree.value, node.expression


def _starred(tree: ast.Starred, node: cst.CSTNode) -> Iterator[Pair]:
    if isinstance(node, cst.SubscriptElement):
        node = node.slice
    yield tree.value, getattr(node, "value")  # noqa: B009 - Arg, StarredElement, Index


def _sequence(
    tree: ast.Tuple | ast.List | ast.Set, node: cst.Tuple | cst.List | cst.Set | cst.Subscript
) -> Iterator[Pair]:
    if isinstance(node, cst.Subscript):
        return _each(tree.elts, [index(one) for one in node.slice])
    return _each(
        tree.elts,
        [one if isinstance(one, cst.StarredElement) else one.value for one in node.elements],
    )


def index(element: cst.SubscriptElement) -> cst.CSTNode:
    """What stands between two commas of an index."""
    inner = element.slice
    if isinstance(inner, cst.Index):
        return element if inner.star else inner.value
    return inner


def _subscript(tree: ast.Subscript, node: cst.Subscript) -> Iterator[Pair]:
    yield tree.value, node.value
    bare = len(node.slice) > 1 or isinstance(node.slice[0].comma, cst.Comma)
    starred = isinstance(node.slice[0].slice, cst.Index) and bool(node.slice[0].slice.star)
    if isinstance(tree.slice, ast.Tuple) and (bare or starred):
        yield from _sequence(tree.slice, node)
    else:
        yield tree.slice, index(node.slice[0])


def _slice(tree: ast.Slice, node: cst.Slice) -> Iterator[Pair]:
    yield from _optional(tree.lower, node.lower)
    yield from _optional(tree.upper, node.upper)
    yield from _optional(tree.step, node.step)


def _dict(tree: ast.Dict, node: cst.Dict) -> Iterator[Pair]:
    if len(tree.values) != len(node.elements):
        raise Mismatch("not as many elements")
    for key, value, one in zip(tree.keys, tree.values, node.elements, strict=True):
        yield from _optional(key, one.key if isinstance(one, cst.DictElement) else None)
        yield value, one.value


def _comprehension(
    tree: ast.ListComp | ast.SetComp | ast.GeneratorExp,
    node: cst.ListComp | cst.SetComp | cst.GeneratorExp,
) -> Iterator[Pair]:
    yield tree.elt, node.elt
    yield from _generators(tree.generators, node.for_in)


def _dict_comprehension(tree: ast.DictComp, node: cst.DictComp) -> Iterator[Pair]:
    yield tree.key, node.key
    yield tree.value, node.value
    yield from _generators(tree.generators, node.for_in)


def _generators(trees: Sequence[ast.comprehension], node: cst.CompFor | None) -> Iterator[Pair]:
    nodes: list[cst.CSTNode] = []
    while node is not None:
        nodes.append(node)
        node = node.inner_for_in
    return _each(trees, nodes)


def _generator(tree: ast.comprehension, node: cst.CompFor) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.iter, node.iter
    yield from _each(tree.ifs, [one.test for one in node.ifs])


def _formatted(
    tree: ast.JoinedStr, node: cst.FormattedString | cst.ConcatenatedString
) -> Iterator[Pair]:
    """An f-string: the expressions in it. The text between them has no nodes here."""
    found = [
        part
        for piece in _pieces(node)
        if isinstance(piece, cst.FormattedString)
        for part in piece.parts
        if isinstance(part, cst.FormattedStringExpression)
    ]
    return _each([one for one in tree.values if isinstance(one, ast.FormattedValue)], found)


def _pieces(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The strings that stand beside each other."""
    if isinstance(node, cst.ConcatenatedString):
        yield from _pieces(node.left)
        yield from _pieces(node.right)
    else:
        yield node


def _formatted_value(
    tree: ast.FormattedValue, node: cst.FormattedStringExpression
) -> Iterator[Pair]:
    yield tree.value, node.expression
    if isinstance(tree.format_spec, ast.JoinedStr):
        inner = [
            part
            for part in node.format_spec or ()
            if isinstance(part, cst.FormattedStringExpression)
        ]
        values = tree.format_spec.values
        yield from _each([one for one in values if isinstance(one, ast.FormattedValue)], inner)


_WALKS: dict[type[ast.AST], Callable[..., Iterator[Pair]]] = {
    ast.Module: _module,
    ast.If: _if,
    ast.While: _while,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.Try: _try,
    ast.ExceptHandler: _handler,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.withitem: _item,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Lambda: _lambda,
    ast.arg: _argument,
    ast.ClassDef: _class,
    ast.keyword: _keyword,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.Delete: _delete,
    ast.Expr: _value,
    ast.Return: _value,
    ast.Attribute: _value,
    ast.Yield: _value,
    ast.YieldFrom: _value,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Import: _import,
    ast.ImportFrom: _import,
    ast.Match: _match,
    ast.match_case: _case,
    ast.Call: _call,
    ast.BoolOp: _bool,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.IfExp: _conditional,
    ast.NamedExpr: _named,
    ast.Await: _await,
    ast.Starred: _starred,
    ast.Tuple: _sequence,
    ast.List: _sequence,
    ast.Set: _sequence,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.comprehension: _generator,
    ast.JoinedStr: _formatted,
    ast.FormattedValue: _formatted_value,
}
if hasattr(ast, "TryStar"):  # Python 3.11
    _WALKS[ast.TryStar] = _try
if hasattr(ast, "TypeAlias"):  # Python 3.12
    _WALKS[ast.TypeAlias] = _type_alias


# --- kinds ---------------------------------------------------------------------------------------

#: What a node of one tree is in the other one.
KINDS: dict[str, tuple[str, ...]] = {
    "AsyncFor": ("For",),
    "AsyncFunctionDef": ("FunctionDef",),
    "AsyncWith": ("With",),
    "BinOp": ("BinaryOperation",),
    "BoolOp": ("BooleanOperation",),
    "Compare": ("Comparison",),
    "Constant": (
        *("SimpleString", "ConcatenatedString", "Integer", "Float", "Imaginary", "Name"),
        *("Ellipsis", "FormattedString"),
    ),
    "Delete": ("Del",),
    "FormattedValue": ("FormattedStringExpression",),
    "JoinedStr": ("FormattedString", "ConcatenatedString"),
    "NamedExpr": ("NamedExpr",),
    "Starred": ("Arg", "StarredElement", "SubscriptElement"),
    "UnaryOp": ("UnaryOperation",),
    "YieldFrom": ("Yield",),
    "alias": ("ImportAlias",),
    "arg": ("Param",),
    "comprehension": ("CompFor",),
    "keyword": ("Arg",),
    "match_case": ("MatchCase",),
    "withitem": ("WithItem",),
}


def same_kind(tree: ast.AST, node: cst.CSTNode) -> bool:
    """Whether two nodes are of the same kind."""
    name = type(tree).__name__
    return type(node).__name__ in KINDS.get(name, (name,))
