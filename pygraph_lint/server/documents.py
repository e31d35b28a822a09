"""The open texts, as the editor has them, and its way of counting columns.

Lines end at \\n, \\r\\n and \\r only, as for Python and the protocol; a form feed is no line end.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Sequence

from lsprotocol import types

from pygraph_lint.server.messages import Place

_LINE_END = re.compile(r"\r\n|\n|\r")

Encoding = types.PositionEncodingKind | str


def units(text: str, encoding: Encoding) -> int:
    """How many columns a piece of a line has for the editor."""
    if text.isascii() or encoding == types.PositionEncodingKind.Utf32:
        return len(text)
    if encoding == types.PositionEncodingKind.Utf8:
        return len(text.encode(errors="surrogatepass"))
    return len(text.encode("utf-16-le", errors="surrogatepass")) // 2


def characters(line: str, column: int, encoding: Encoding) -> int:
    """How many characters of a line lie before the editor's column; all where it has fewer. A
    column inside a character counts as the one behind it.
    """
    if line.isascii() or encoding == types.PositionEncodingKind.Utf32:
        return min(column, len(line))
    passed = 0
    for number, character in enumerate(line):
        if passed >= column:
            return number
        passed += units(character, encoding)
    return len(line)


class Lines:
    """A text, by lines."""

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text = text
        self._encoding = encoding
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def line(self, number: int) -> str:
        """A line, counted from 0, without its end; empty behind the last."""
        if not 0 <= number < len(self._starts):
            return ""
        start = self._starts[number]
        end = self._starts[number + 1] if number + 1 < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def offset(self, position: types.Position) -> int:
        """Where a position is in the text; the nearest place where there is none such."""
        if position.line >= len(self._starts):
            return len(self.text)
        line = self.line(position.line)
        return self._starts[position.line] + characters(line, position.character, self._encoding)

    def position(self, place: Place) -> types.Position:
        """The editor's position of a row and a column, both counted from 1."""
        row, column = place
        if row > len(self._starts):
            last = len(self._starts) - 1
            return types.Position(last, units(self.line(last), self._encoding))
        before = self.line(row - 1)[: column - 1]
        return types.Position(row - 1, units(before, self._encoding))

    def place(self, position: types.Position) -> Place:
        """The row and column of an editor's position."""
        offset = self.offset(position)
        row = bisect.bisect_right(self._starts, offset)
        return (row, offset - self._starts[row - 1] + 1)

    def range(self, start: Place, end: Place) -> types.Range:
        """The editor's range between two places."""
        return types.Range(self.position(start), self.position(end))


Change = types.TextDocumentContentChangeEvent


def changed(text: str, changes: Sequence[Change], encoding: Encoding) -> str:
    """The text after an editor's changes, made one after another."""
    for change in changes:
        if isinstance(change, types.TextDocumentContentChangePartial):
            lines = Lines(text, encoding)
            start, end = lines.offset(change.range.start), lines.offset(change.range.end)
            text = text[:start] + change.text + text[max(start, end) :]
        else:
            text = change.text
    return text
