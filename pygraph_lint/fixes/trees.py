"""One file in both trees: the syntax tree that the analysis knows, and libcst's."""

from __future__ import annotations

import ast
from copy import copy
from itertools import pairwise
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.queries import FileQueries
from pygraph_lint.fixes import nodes
from pygraph_lint.fixes.node_parts import Mismatch
from pygraph_lint.fixes.proposal import Declined
from pygraph_lint.fixes.source import Source


class Part(NamedTuple):
    """A part of a file as libcst parses it; ``block`` holds its statements."""

    module: cst.Module
    block: cst.Module | cst.BaseSuite


class File:
    """One file in both trees. libcst parses those statements of it that rewrites ask for."""

    def __init__(self, source: Source, queries: FileQueries) -> None:
        self.source = source
        self.queries = queries
        self._nodes: dict[ast.AST, cst.CSTNode] = {}
        self._parts: dict[ast.stmt, Part] = {}

    def believing(self) -> File:
        """The same file, asked what is only believed, too."""
        other = copy(self)
        other.queries = self.queries.believing()
        return other

    def part(self, tree: ast.AST) -> Part:
        """libcst's tree of the part of the file that a node stands in: a statement of the module or
        of one of its classes, and what shares lines with it. Raises Declined where it does not
        give back the file's own text.
        """
        group = self._group(tree)
        if group[0] not in self._parts:
            part = self._parsed(group[0], group[-1])
            try:
                for each, node in nodes.statements(group, part.block):
                    self._nodes.update(nodes.pairs(each, node))
            except Mismatch:
                raise Declined("libcst reads the code differently") from None
            self._parts[group[0]] = part
        return self._parts[group[0]]

    def _group(self, tree: ast.AST) -> list[ast.stmt]:
        """The statements that are parsed for a node."""
        path = [tree, *self.queries.path(tree)]
        for child, parent in pairwise(path):
            if isinstance(child, ast.stmt) and isinstance(parent, (ast.Module, ast.ClassDef)):
                group = _on_same_lines(parent.body, child)
                inside = parent in self.source.tree.body and self.source.begins_line(group[0])
                if inside or isinstance(parent, ast.Module):
                    return group
        raise Declined("the code is a kind of syntax that is not followed")

    def _parsed(self, first: ast.stmt, last: ast.stmt) -> Part:
        number = first_line(first)
        text = self.source.lines(number, last)
        if not first.col_offset:
            module = _parsed(text)
            return Part(module, module)
        module = _parsed(f"class _:{self.source.line_end(number)}{text}")
        return Part(module, cst.ensure_type(module.body[0], cst.ClassDef).body)

    def node(self, tree: ast.AST) -> cst.CSTNode:
        """The libcst node of an ``ast`` node. Raises Declined where there is none."""
        if tree not in self._nodes:
            self.part(tree)
        if tree not in self._nodes:
            raise Declined("the code is a kind of syntax that is not followed")
        return self._nodes[tree]


def _on_same_lines(body: list[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
    """A statement of a block with those before and behind it that share its lines."""
    first = last = body.index(statement)
    while first and body[first - 1].end_lineno == first_line(body[first]):
        first -= 1
    while last + 1 < len(body) and first_line(body[last + 1]) == body[last].end_lineno:
        last += 1
    return body[first : last + 1]


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
