"""The parts of each expression, as pairs of both trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

import libcst as cst

from pygraph_lint.fixes.node_parts import Mismatch, Pair, arguments, each, optional


def walk_call(tree: ast.Call, node: cst.Call) -> Iterator[Pair]:
    yield tree.func, node.func
    yield from arguments(tree.args, tree.keywords, node.args)


def walk_bool(tree: ast.BoolOp, node: cst.BooleanOperation) -> Iterator[Pair]:
    return each(tree.values, operands(node))


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


def walk_compare(tree: ast.Compare, node: cst.Comparison) -> Iterator[Pair]:
    yield tree.left, node.left
    yield from each(tree.comparators, [one.comparator for one in node.comparisons])


def walk_starred(tree: ast.Starred, node: cst.CSTNode) -> Iterator[Pair]:
    if isinstance(node, cst.SubscriptElement):
        node = node.slice
    yield tree.value, getattr(node, "value")  # noqa: B009 - Arg, StarredElement, Index


def walk_sequence(
    tree: ast.Tuple | ast.List | ast.Set, node: cst.Tuple | cst.List | cst.Set | cst.Subscript
) -> Iterator[Pair]:
    if isinstance(node, cst.Subscript):
        return each(tree.elts, [index(one) for one in node.slice])
    return each(
        tree.elts,
        [one if isinstance(one, cst.StarredElement) else one.value for one in node.elements],
    )


def index(element: cst.SubscriptElement) -> cst.CSTNode:
    """What stands between two commas of an index."""
    inner = element.slice
    if isinstance(inner, cst.Index):
        return element if inner.star else inner.value
    return inner


def walk_subscript(tree: ast.Subscript, node: cst.Subscript) -> Iterator[Pair]:
    yield tree.value, node.value
    bare = len(node.slice) > 1 or isinstance(node.slice[0].comma, cst.Comma)
    starred = isinstance(node.slice[0].slice, cst.Index) and bool(node.slice[0].slice.star)
    if isinstance(tree.slice, ast.Tuple) and (bare or starred):
        yield from walk_sequence(tree.slice, node)
    else:
        yield tree.slice, index(node.slice[0])


def walk_dict(tree: ast.Dict, node: cst.Dict) -> Iterator[Pair]:
    if len(tree.values) != len(node.elements):
        raise Mismatch("not as many elements")
    for key, value, one in zip(tree.keys, tree.values, node.elements, strict=True):
        yield from optional(key, one.key if isinstance(one, cst.DictElement) else None)
        yield value, one.value


def walk_comprehension(
    tree: ast.ListComp | ast.SetComp | ast.GeneratorExp,
    node: cst.ListComp | cst.SetComp | cst.GeneratorExp,
) -> Iterator[Pair]:
    yield tree.elt, node.elt
    yield from walk_generators(tree.generators, node.for_in)


def walk_dict_comprehension(tree: ast.DictComp, node: cst.DictComp) -> Iterator[Pair]:
    yield tree.key, node.key
    yield tree.value, node.value
    yield from walk_generators(tree.generators, node.for_in)


def walk_generators(trees: Sequence[ast.comprehension], node: cst.CompFor | None) -> Iterator[Pair]:
    nodes: list[cst.CSTNode] = []
    while node is not None:
        nodes.append(node)
        node = node.inner_for_in
    return each(trees, nodes)


def walk_generator(tree: ast.comprehension, node: cst.CompFor) -> Iterator[Pair]:
    yield tree.target, node.target
    yield tree.iter, node.iter
    yield from each(tree.ifs, [one.test for one in node.ifs])


def walk_formatted(
    tree: ast.JoinedStr, node: cst.FormattedString | cst.ConcatenatedString
) -> Iterator[Pair]:
    """An f-string: the expressions in it. The text between them has no nodes here."""
    found = [
        part
        for piece in walk_pieces(node)
        if isinstance(piece, cst.FormattedString)
        for part in piece.parts
        if isinstance(part, cst.FormattedStringExpression)
    ]
    return each([one for one in tree.values if isinstance(one, ast.FormattedValue)], found)


def walk_pieces(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The strings that stand beside each other."""
    if isinstance(node, cst.ConcatenatedString):
        yield from walk_pieces(node.left)
        yield from walk_pieces(node.right)
    else:
        yield node


def walk_formatted_value(
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
        yield from each([one for one in values if isinstance(one, ast.FormattedValue)], inner)
