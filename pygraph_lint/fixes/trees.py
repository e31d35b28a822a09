"""One file in both trees: the syntax tree that the analysis knows, and libcst's."""

from __future__ import annotations

import ast
from copy import copy
from functools import cached_property

import libcst as cst

from pygraph_lint.analysis.queries import FileQueries
from pygraph_lint.fixes import nodes
from pygraph_lint.fixes.node_parts import Mismatch
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.source import Source


class File:
    """One file in both trees. libcst parses those statements of it that rewrites ask for."""

    def __init__(self, source: Source, queries: FileQueries) -> None:
        self.source = source
        self.queries = queries
        self._nodes: dict[ast.AST, cst.CSTNode] = {}
        self._parts: dict[ast.AST, cst.Module] = {}

    def believing(self) -> File:
        """The same file, asked what is only believed, too."""
        other = copy(self)
        other.queries = self.queries.believing()
        return other

    def part(self, tree: ast.AST) -> cst.Module:
        """libcst's tree of the statement of the module that a node stands in, and of what shares
        lines with it. Raises Declined where it does not give back the file's own text.
        """
        top = next((each for each in [tree, *self.queries.path(tree)] if each in self._tops), None)
        if top is None:
            raise Declined("the code is a kind of syntax that is not followed")
        if top not in self._parts:
            group = self._on_same_lines(self._tops[top])
            part = _parsed(self.source.lines(first_line(group[0]), group[-1]))
            try:
                for each, node in nodes.statements(group, part):
                    self._nodes.update(nodes.pairs(each, node))
            except Mismatch:
                raise Declined("libcst reads the code differently") from None
            self._parts.update(dict.fromkeys(group, part))
        return self._parts[top]

    def _on_same_lines(self, index: int) -> list[ast.stmt]:
        """A statement of the module with those before and behind it that share its lines."""
        body = self.source.tree.body
        first, last = index, index
        while first and body[first - 1].end_lineno == first_line(body[first]):
            first -= 1
        while last + 1 < len(body) and first_line(body[last + 1]) == body[last].end_lineno:
            last += 1
        return body[first : last + 1]

    def node(self, tree: ast.AST) -> cst.CSTNode:
        """The libcst node of an ``ast`` node. Raises Declined where there is none."""
        if tree not in self._nodes:
            self.part(tree)
        if tree not in self._nodes:
            raise Declined("the code is a kind of syntax that is not followed")
        return self._nodes[tree]

    @cached_property
    def _tops(self) -> dict[ast.AST, int]:
        return {node: index for index, node in enumerate(self.source.tree.body)}


def first_line(tree: ast.stmt) -> int:
    """The line on which a statement begins, decorators included."""
    decorators: list[ast.expr] = getattr(tree, "decorator_list", [])
    return min([tree.lineno, *(item.lineno for item in decorators)])


def _parsed(text: str) -> cst.Module:
    """libcst's tree of a text. Raises Declined where it does not give back the same text."""
    try:
        module = cst.parse_module(text.encode())
        same = module.bytes == text.encode()
    except (cst.ParserSyntaxError, UnicodeError):
        raise Declined("libcst cannot parse the code") from None
    except RecursionError:
        same = False
    if not same:
        raise Declined("libcst does not give back the code as it is")
    return module
