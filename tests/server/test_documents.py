"""Texts as editors send them: columns in three encodings, changes, notebooks."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from pygraph_lint.server.differences import difference
from pygraph_lint.server.documents import Lines, changed, characters, units
from pygraph_lint.server.messages import TextEdit
from pygraph_lint.server.texts import Cell, File, Notebook, path_of

ENCODINGS = ["utf-8", "utf-16", "utf-32"]
CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}
TEXTS = st.text(st.sampled_from("ab =é漢🔥👩\n\r\f\u2028\t"), max_size=60)


@given(TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_columns_are_counted_in_the_units_of_the_encoding(
    text: str, encoding: str, data: st.DataObject
) -> None:
    lines = Lines(text, encoding)
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    row = data.draw(st.integers(0, len(rows) - 1))
    column = data.draw(st.integers(0, len(rows[row])))
    position = lines.position((row + 1, column + 1))
    codec, width = CODECS[encoding]
    assert position.character == len(rows[row][:column].encode(codec)) // width
    assert lines.place(position) == (row + 1, column + 1)
    assert lines.line(row) == rows[row]


@given(TEXTS, TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_a_change_replaces_exactly_its_range(
    text: str, new: str, encoding: str, data: st.DataObject
) -> None:
    lines = Lines(text, encoding)
    offsets = [0, *(n for n in range(1, len(text) + 1) if text[n - 1 : n + 1] != "\r\n")]
    start, end = sorted(data.draw(st.tuples(*[st.sampled_from(offsets)] * 2)))

    def position(offset: int) -> types.Position:
        above = Lines(text[:offset], encoding)
        row = len(above._starts)
        return lines.position((row, offset - above._starts[-1] + 1))

    # An offset behind the line end of the line before it is the start of a line.
    where = types.Range(position(start), position(end))
    change = types.TextDocumentContentChangePartial(where, new)
    assert changed(text, [change], encoding) == text[:start] + new + text[end:]


def test_places_that_are_not_there_are_the_nearest() -> None:
    lines = Lines("a🔥b\nlast", "utf-16")
    assert lines.offset(types.Position(0, 99)) == 3
    assert lines.offset(types.Position(9, 0)) == len("a🔥b\nlast")
    assert lines.position((9, 1)) == types.Position(1, 4)
    assert characters("a🔥b", 2, "utf-16") == 2  # inside of the character
    assert units("a🔥", "utf-8") == 5


@given(TEXTS, TEXTS)
def test_the_difference_of_two_texts_makes_one_of_the_other(before: str, after: str) -> None:
    file = File("file:///a.py", Path("/a.py"), before, 1, 1, "utf-16")
    [edited] = file.edited(difference(before, after))
    for edit in reversed(edited.edits):
        change = types.TextDocumentContentChangePartial(edit.range, edit.new_text)
        before = changed(before, [change], "utf-16")
    assert before == after


def _notebook() -> Notebook:
    cells = [
        Cell("cell:0", False, "# text", 1),
        Cell("cell:1", True, "%matplotlib inline\nimport torch", 1),
        Cell("cell:2", True, "x = '🔥'; y = 1", 4),
    ]
    return Notebook(Path("/book.ipynb"), cells, 7, "utf-16")


def test_places_of_a_notebook_are_those_of_its_cells() -> None:
    book = _notebook()
    assert book.parts == [("cell:1", 1), ("cell:2", 4)]
    rows = book.text.split("\n")
    row = next(n for n, line in enumerate(rows, 1) if line.startswith("x ="))
    start = (row, rows[row - 1].index("y") + 1)
    uri, where = book.range(start, (row, start[1] + 1))
    assert (uri, where.start, where.end) == ("cell:2", types.Position(0, 10), types.Position(0, 11))
    assert book.place("cell:2", where.start) == start
    for uri, text in (("cell:1", "import torch"), ("cell:2", "x =")):
        line = 1 if uri == "cell:1" else 0
        row, _ = book.place(uri, types.Position(line, 0))
        assert rows[row - 1].startswith(text)


def test_edits_of_a_notebook_leave_magics_alone() -> None:
    book = _notebook()
    rows = book.text.split("\n")
    row = rows.index("import torch") + 1
    [edited] = book.edited([TextEdit((row, 1), (row, 7), "import os, ")])
    changed_text = edited.text_document
    assert (changed_text.uri, changed_text.version) == ("cell:1", 1)
    text = book.cells[1].text
    for edit in edited.edits:
        change = types.TextDocumentContentChangePartial(edit.range, edit.new_text)
        text = changed(text, [change], "utf-16")
    assert text == "%matplotlib inline\nimport os,  torch"
    # Without the line between two cells nobody can tell them apart.
    assert book.edited([TextEdit((1, 1), (3, 1), "")]) == []


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "git:/a.py", "http://host/a.py"])
def test_only_files_have_paths(uri: str) -> None:
    assert path_of(uri) is None
