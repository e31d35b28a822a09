"""Parts of nodes that statements and expressions have in common, as pairs of both trees."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst

Pair = tuple[ast.AST, cst.CSTNode]


class Mismatch(Exception):
    """The two trees are not of one text, or hold syntax that this file does not know."""


def each(trees: Sequence[ast.AST], nodes: Sequence[cst.CSTNode]) -> Iterator[Pair]:
    if len(trees) != len(nodes):
        raise Mismatch(f"{len(trees)} and {len(nodes)} parts")
    return zip(trees, nodes, strict=True)


def optional(tree: ast.AST | None, node: cst.CSTNode | None) -> Iterator[Pair]:
    if (tree is None) != (node is None):
        raise Mismatch("a part that only one tree has")
    if tree is not None and node is not None:
        yield tree, node


def arguments(
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


def parameters(tree: ast.arguments, node: cst.Parameters) -> Iterator[Pair]:
    plain = [*node.posonly_params, *node.params]
    yield from each([*tree.posonlyargs, *tree.args], plain)
    defaults = [one.default for one in plain if one.default is not None]
    yield from each(tree.defaults, defaults)
    yield from each(tree.kwonlyargs, node.kwonly_params)
    for value, one in zip(tree.kw_defaults, node.kwonly_params, strict=True):
        yield from optional(value, one.default)
    star = node.star_arg
    yield from optional(tree.vararg, star if isinstance(star, cst.Param) else None)
    yield from optional(tree.kwarg, node.star_kwarg)
