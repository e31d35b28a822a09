"""One file's text and syntax tree, and the way between the two.

Positions: ``ast`` counts UTF-8 bytes, findings and edits count characters; everything in
``fixes/`` works with offsets into the text and leaves the conversion to this module.
"""

from __future__ import annotations

import ast
import bisect
import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from pygraph_lint.analysis.syntax.nodes import first_line
from pygraph_lint.findings import Location

_LINE_END = re.compile(r"\r\n|\r|\n")
_TRIPLE = re.compile("\"\"\"|'''")
# A line of a string that is written in several behind each other.
_STRING = re.compile(r"\s*\w*('|\")(?!\1\1).*\1\s*\\?")
_UNBROKEN = re.compile(r"[\"'#]")
_WIDTHS = (79, 80, 88, 100, 119)
# A file with so many lines above this length, and none above 80, keeps a limit below 88.
_NEAR, _ENOUGH = 72, 4
# The part of a file's long lines that may be longer than its limit.
_BEYOND = 0.05


def line_starts(text: str) -> list[int]:
    """Offset of each line's first character (behind a byte-order mark), and the text's length."""
    mark = 1 if text.startswith("\ufeff") else 0
    return [mark, *(match.end() for match in _LINE_END.finditer(text)), len(text)]


class Source:
    """A parsed file. Raises SyntaxError, ValueError or RecursionError as ``ast.parse`` does."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text.removeprefix("\ufeff"))
        self._starts = line_starts(text)
        self._paths: dict[tuple[int, int], list[ast.AST]] = {}

    @cached_property
    def newline(self) -> str:
        """The line ending the file uses most."""
        seen = Counter(_LINE_END.findall(self.text))
        return seen.most_common(1)[0][0] if seen else "\n"

    @cached_property
    def width(self) -> int:
        """The line length the file keeps: the smallest usual limit that nearly all of its code
        lines respect, up to 120.

        Lines that cannot be broken (comments, strings, links) are not counted.
        """
        lines = enumerate(_LINE_END.split(self.text), 1)
        code = (line for number, line in lines if number not in self.rows_of_strings)
        long = [len(line) for line in code if len(line) > _NEAR and not _UNBROKEN.search(line)]
        widths = _WIDTHS if len(long) >= _ENOUGH else _WIDTHS[2:]
        most = _BEYOND * len(long)
        return next((w for w in widths if sum(each > w for each in long) <= most), 120)

    @cached_property
    def rows_of_strings(self) -> frozenset[int]:
        """The numbers of the lines with a part of a string."""
        return frozenset(
            line
            for each in ast.walk(self.tree)
            if isinstance(each, (ast.Constant, ast.JoinedStr))
            if isinstance(getattr(each, "value", ""), str)
            for line in range(each.lineno, (each.end_lineno or 0) + 1)
        )

    @cached_property
    def rows_between_lines(self) -> frozenset[int]:
        """The numbers of the lines that begin or end in a string of several lines."""
        return frozenset(
            line
            for each in ast.walk(self.tree)
            if isinstance(each, (ast.Constant, ast.JoinedStr)) and each.end_lineno != each.lineno
            if _TRIPLE.search(text := self.segment(each))
            or not all(map(_STRING.fullmatch, text.splitlines()))
            for line in range(each.lineno, (each.end_lineno or 0) + 1)
        )

    @cached_property
    def quote(self) -> str:
        """The quotation mark the file uses most for strings."""
        return "'" if self.text.count("'") > self.text.count('"') else '"'

    @cached_property
    def indent_unit(self) -> str:
        """One step of indentation, as the file writes it."""
        for node in self.tree.body:
            body = getattr(node, "body", None)
            if isinstance(body, list) and body and body[0].lineno > node.lineno:
                return self.indent(body[0])
        return "    "

    @cached_property
    def whole_lines(self) -> frozenset[tuple[int, int | None]]:
        """The numbers of the lines on which a statement begins and ends."""
        statements = (node for node in ast.walk(self.tree) if isinstance(node, ast.stmt))
        return frozenset((each.lineno, each.end_lineno) for each in statements)

    def line(self, number: int) -> str:
        """The text of a 1-based line, without its line ending."""
        return self.text[self._starts[number - 1] : self._starts[number]].rstrip("\r\n")

    def line_end(self, number: int) -> str:
        """The line ending of a 1-based line; the file's own where the text ends there."""
        end = self._starts[number - 1] + len(self.line(number))
        return self.text[end : self._starts[number]] or self.newline

    def begins_line(self, statement: ast.stmt) -> bool:
        """Whether nothing stands in front of a statement on its line."""
        start, _ = self.span(statement)
        return not self.text[self.line_start(statement.lineno) : start].strip()

    def line_start(self, number: int) -> int:
        """Offset of the first character of a 1-based line."""
        return self._starts[number - 1]

    def lines(self, first: int, last: ast.stmt) -> str:
        """The text from a 1-based line to the end of the lines of a statement."""
        return self.text[self._starts[first - 1] : self._starts[last.end_lineno or last.lineno]]

    def offset(self, line: int, column: int) -> int:
        """Offset of a place given as ``ast`` does: 1-based line, column in UTF-8 bytes."""
        start = self._starts[line - 1]
        piece = self.text[start : start + column]
        if piece.isascii():
            return start + column
        return start + len(piece.encode()[:column].decode(errors="ignore"))

    def at(self, location: Location) -> int:
        """Offset of a Location."""
        return self._starts[location.row - 1] + location.column - 1

    def location(self, offset: int) -> Location:
        """The Location of an offset."""
        row = max(bisect.bisect_right(self._starts, offset, hi=len(self._starts) - 1), 1)
        return Location(row, offset - self._starts[row - 1] + 1)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Start and end offset of a node that has a position."""
        kinds = (ast.stmt, ast.expr, ast.keyword, ast.arg, ast.excepthandler, ast.alias)
        assert isinstance(node, kinds)
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self.offset(node.lineno, node.col_offset)
        return start, self.offset(node.end_lineno, node.end_col_offset)

    def with_parentheses(self, node: ast.expr, inside: ast.AST) -> tuple[int, int]:
        """The span of an expression with the parentheses around it, so far as inside ``inside``."""
        low, high = self.span(inside)
        start, end = self.span(node)
        while True:
            left, right = start, end
            while left > low and self.text[left - 1] in " \t\r\n":
                left -= 1
            while right < high and self.text[right] in " \t\r\n":
                right += 1
            inner = left > low and right < high
            if inner and self.text[left - 1] == "(" and self.text[right] == ")":
                start, end = left - 1, right + 1
            else:
                return start, end

    def segment(self, node: ast.AST) -> str:
        """The source of a node, without parentheses around it."""
        start, end = self.span(node)
        return self.text[start:end]

    def indent(self, statement: ast.stmt) -> str:
        """The white space in front of a statement's line."""
        line = self.line(statement.lineno)
        return line[: len(line) - len(line.lstrip())]

    def alone(self, statement: ast.stmt) -> bool:
        """Whether the statement's lines hold nothing else but comments (no `;`, no `if x: y` on
        one line).
        """
        start, end = self.span(statement)
        before = self.text[self.line_start(statement.lineno) : start]
        assert statement.end_lineno is not None
        after = self.text[end : self._starts[statement.end_lineno]].strip()
        return not before.strip() and (not after or after.startswith("#"))

    def path(self, start: int, end: int) -> list[ast.AST]:
        """The nodes around ``start:end``, from the module to the innermost one that covers it."""
        if (start, end) not in self._paths:
            self._paths[start, end] = self._path(start, end)
        return self._paths[start, end]

    def _path(self, start: int, end: int) -> list[ast.AST]:
        row = self.location(start).row
        path: list[ast.AST] = [self.tree]
        while True:
            for child in _children_at(path[-1], row):
                low, high = self.span(child)
                if low <= start and end <= high:
                    path.append(child)
                    break
            else:
                return path


def _children_at(node: ast.AST, row: int) -> Iterator[ast.AST]:
    """Children with a position that may hold a line; those without one are looked through.

    Of a block, only the last statement that starts at or above the line, and the few on one line
    with it: blocks may be long, and are in order.
    """
    for _, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        if len(children) > _LONG and isinstance(children[0], ast.stmt):
            last = bisect.bisect_right(children, row, key=first_line)
            first = bisect.bisect_left(children, first_line(children[last - 1]), key=first_line)
            children = children[max(first - 1, 0) : last] if last else []
        for child in children:
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from child.decorator_list
            if isinstance(child, (ast.stmt, ast.expr, ast.keyword, ast.arg, ast.excepthandler)):
                yield child
            elif isinstance(child, ast.AST):
                yield from _children_at(child, row)


_LONG = 8
