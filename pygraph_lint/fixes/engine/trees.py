"""One file in both trees: the syntax tree that the analysis knows, and libcst's."""

from __future__ import annotations

import ast
from copy import copy
from typing import NamedTuple

import libcst as cst

from pygraph_lint.analysis.queries.file_queries import FileQueries
from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.fixes.engine import nodes
from pygraph_lint.fixes.engine.changes import Declined
from pygraph_lint.fixes.engine.nodes import Mismatch
from pygraph_lint.fixes.engine.source import Source

HOLDERS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Holder = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


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
        """libcst's tree of the part of the file that a node stands in: a statement of the module,
        of a class, or of a function that is in no other one, and what shares lines with it. Raises
        Declined where it does not give back the file's own text.
        """
        group, around = self._group(tree)
        if group[0] not in self._parts:
            part = self._parsed(group, around)
            try:
                for each, node in nodes.statements(group, part.block):
                    self._nodes.update(nodes.pairs(each, node))
            except Mismatch:
                raise Declined("libcst reads the code differently") from None
            self._parts[group[0]] = part
        return self._parts[group[0]]

    def _group(self, tree: ast.AST) -> tuple[list[ast.stmt], list[Holder]]:
        """The statements that are parsed for a node, and the definitions around them."""
        group: list[ast.stmt] = []
        around: list[Holder] = []
        holders: list[Holder] = []
        body = self.source.tree.body
        for node in [*reversed([*self.queries.path(tree)]), tree][1:]:
            if not isinstance(node, ast.stmt) or node not in body:
                break
            found = _on_same_lines(body, node)
            if holders and not self.source.begins_line(found[0]):
                break
            group, around = found, [*holders]
            if not isinstance(node, HOLDERS) or (holders and _is_function(holders[-1])):
                break
            holders.append(node)
            body = node.body
        if not group:
            raise Declined("the code is a kind of syntax that is not followed")
        return group, around

    def _parsed(self, group: list[ast.stmt], around: list[Holder]) -> Part:
        """The statements, those of a function with the comments above them, below short heads."""
        number = first_line(group[0])
        ending = self.source.line_end(number)
        if around and _is_function(around[-1]):
            body = around[-1].body
            place = body.index(group[0])
            least = body[place - 1].end_lineno if place else around[-1].lineno
            while number - 1 > (least or 0) and _says_nothing(self.source.line(number - 1)):
                number -= 1
        heads = "".join(
            f"{self.source.indent(each)}{'def _()' if _is_function(each) else 'class _'}:{ending}"
            for each in around
        )
        module = _parsed(heads + self.source.lines(number, group[-1]))
        block: cst.Module | cst.BaseSuite = module
        for _ in around:
            head = block.body[0]
            assert isinstance(head, (cst.ClassDef, cst.FunctionDef))
            block = head.body
        return Part(module, block)

    def node(self, tree: ast.AST) -> cst.CSTNode:
        """The libcst node of an ``ast`` node. Raises Declined where there is none."""
        if tree not in self._nodes:
            self.part(tree)
        if tree not in self._nodes:
            raise Declined("the code is a kind of syntax that is not followed")
        return self._nodes[tree]


def _is_function(holder: Holder) -> bool:
    return not isinstance(holder, ast.ClassDef)


def _says_nothing(line: str) -> bool:
    """Whether a line is empty, or a comment."""
    return line.lstrip()[:1] in ("", "#")


def _on_same_lines(body: list[ast.stmt], statement: ast.stmt) -> list[ast.stmt]:
    """A statement of a block with those before and behind it that share its lines."""
    first = last = body.index(statement)
    while first and body[first - 1].end_lineno == first_line(body[first]):
        first -= 1
    while last + 1 < len(body) and first_line(body[last + 1]) == body[last].end_lineno:
        last += 1
    return body[first : last + 1]


def _parsed(text: str) -> cst.Module:
    """libcst's tree of a text. Raises Declined where it does not give back the same text."""
    try:
        module = cst.parse_module(text.encode())
        same = module.bytes == text.encode()
    except (cst.ParserSyntaxError, UnicodeError, TypeError):  # of `return(lambda: 0)`
        raise Declined("libcst cannot parse the code") from None
    except RecursionError:
        same = False
    if not same:
        raise Declined("libcst does not give back the code as it is")
    return module
