"""Open files and notebooks as the front holds them: the worker's text, and where a place of it is
for the editor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from lsprotocol import types
from pygls import uris

from pygraph_lint.errors import SourceError
from pygraph_lint.files import notebooks
from pygraph_lint.findings import Location
from pygraph_lint.server.differences import difference
from pygraph_lint.server.documents import Encoding, Lines
from pygraph_lint.server.messages import Place, TextEdit


def path_of(uri: str) -> Path | None:
    """The file that a URI names; None where it is none on the disk."""
    if urlsplit(uri).scheme != "file":
        return None
    name = uris.to_fs_path(uri)
    return Path(name) if name else None


@dataclass(frozen=True)
class File:
    """One version of an open file. ``serial`` is never used twice, unlike the editor's version."""

    uri: str
    path: Path
    text: str
    version: int | None
    serial: int
    encoding: Encoding

    @cached_property
    def lines(self) -> Lines:
        """The text by lines."""
        return Lines(self.text, self.encoding)

    @property
    def parts(self) -> list[tuple[str, int | None]]:
        """The editor's texts that this is made of, each with its version."""
        return [(self.uri, self.version)]

    def range(self, start: Place, end: Place) -> tuple[str, types.Range]:
        """Where two places of the text are for the editor."""
        return self.uri, self.lines.range(start, end)

    def place(self, uri: str, position: types.Position) -> Place:
        """Where a position of the editor is in the text."""
        return self.lines.place(position)

    def edited(self, edits: Sequence[TextEdit]) -> list[types.TextDocumentEdit]:
        """What the editor has to change for some edits of the text."""
        return [_edited(self.uri, self.version, self.lines, edits)]


@dataclass(frozen=True)
class Cell:
    """A cell of an open notebook."""

    uri: str
    code: bool
    text: str
    version: int | None


class Notebook:
    """One version of an open notebook; its text is the program of its code cells."""

    def __init__(self, path: Path, cells: Sequence[Cell], serial: int, encoding: Encoding) -> None:
        self.path = path
        self.serial = serial
        self.cells = tuple(cells)
        self._encoding = encoding
        self._code = [(n, cell.text) for n, cell in enumerate(self.cells, 1) if cell.code]
        self.text = notebooks.program_of(self._code)

    @property
    def parts(self) -> list[tuple[str, int | None]]:
        """As of ``File``: the code cells."""
        return [(cell.uri, cell.version) for cell in self.cells if cell.code]

    def range(self, start: Place, end: Place) -> tuple[str, types.Range]:
        """As of ``File``. What lies in no cell is shown in the first; what ends in another cell
        than it begins, at the end of its line.
        """
        first = notebooks.placed(self.text, Location(*start))
        last = notebooks.placed(self.text, Location(*end))
        if first.cell is None:
            return self.parts[0][0], types.Range(types.Position(0, 0), types.Position(0, 0))
        cell = self.cells[first.cell - 1]
        lines = Lines(cell.text, self._encoding)
        here = (first.row, first.column)
        line_end = (first.row, len(lines.line(first.row - 1)) + 1)
        there = (last.row, last.column) if last.cell == first.cell else line_end
        return cell.uri, lines.range(here, there)

    def place(self, uri: str, position: types.Position) -> Place:
        """As of ``File``."""
        above = 0
        for cell in self.cells:
            if cell.uri == uri:
                row, column = Lines(cell.text, self._encoding).place(position)
                return above + 1 + row, column
            above += 2 + cell.text.count("\n") if cell.code else 0
        return (1, 1)

    def edited(self, edits: Sequence[TextEdit]) -> list[types.TextDocumentEdit]:
        """As of ``File``; nothing where the cells could not be told apart afterwards."""
        program = _with_edits(self.text, edits)
        try:
            texts = notebooks.cells_of(program, self._code)
        except SourceError:
            return []
        made = []
        for (number, old), new in zip(self._code, texts, strict=True):
            if new != old:
                cell, lines = self.cells[number - 1], Lines(old, self._encoding)
                made.append(_edited(cell.uri, cell.version, lines, difference(old, new)))
        return made


def _edited(
    uri: str, version: int | None, lines: Lines, edits: Iterable[TextEdit]
) -> types.TextDocumentEdit:
    """The changes of one of the editor's texts."""
    changes = [types.TextEdit(lines.range(edit.start, edit.end), edit.content) for edit in edits]
    return types.TextDocumentEdit(
        types.OptionalVersionedTextDocumentIdentifier(uri, version), changes
    )


def _with_edits(text: str, edits: Iterable[TextEdit]) -> str:
    lines = Lines(text, types.PositionEncodingKind.Utf32)
    places = [
        (lines.offset(lines.position(e.start)), lines.offset(lines.position(e.end)), e)
        for e in edits
    ]
    for start, end, edit in sorted(places, key=lambda place: place[:2], reverse=True):
        text = text[:start] + edit.content + text[end:]
    return text


Open = File | Notebook
