"""Jupyter notebooks: their code cells as one Python program, and the program back into the cells.

The program has a comment line before each cell, so that a line leads back to its cell. What only
IPython understands (``%magic``, ``!command``, ``name?``) becomes a ``pass`` that names it; a cell
in another language (``%%bash``) has no code. Only the text of a changed cell is written anew:
outputs, metadata and the layout of the file stay as they are, byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pygraph_lint.errors import SourceError
from pygraph_lint.findings import Location

SUFFIX = ".ipynb"
_HEADER = re.compile(r"# %% pygraph-lint: cell (\d+)\Z")
# What a line of IPython gives values to: `files = !ls`. An annotation may follow.
_TARGET = r"[^\W\d]\w*(?:\.\w+|\[(?:[^][=]|\[[^][=]*\])*\])*"
_TARGETS = rf"{_TARGET}(?:[ \t]*,[ \t]*{_TARGET})*(?:[ \t]*:[\w \t.,|[\]]+)?"
_STAND_IN = re.compile(rf"(?:pass|{_TARGETS} = __ipython__)  # ipython (\d+)")
_GIVES = re.compile(rf"[ \t]*({_TARGETS})[ \t]*=[ \t]*[%!]")
_MAGIC = re.compile(rf"[ \t]*(?:%(?=[\w%])|!(?!=)|\?|[\w.]+\?{{1,2}}[ \t]*$)|{_GIVES.pattern}")
# Cell magics whose body is Python.
_PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell: its number among all cells (from 1), its text, and where its JSON stands."""

    number: int
    text: str
    start: int
    end: int


def _header(number: int) -> str:
    return f"# %% pygraph-lint: cell {number}"


# --- to a program and back ------------------------------------------------------------------------


def to_program(data: bytes) -> bytes:
    """The code cells of a notebook as one program in UTF-8. Raises SourceError for what is no
    notebook.
    """
    return program_of((cell.number, cell.text) for cell in _code_cells(_text(data))).encode()


def program_of(cells: Iterable[tuple[int, str]]) -> str:
    """Code cells, each a number and a text, as one program."""
    lines: list[str] = []
    for number, text in cells:
        lines.append(_header(number))
        lines += _without_magics(text).split("\n")
    return "\n".join(lines) + "\n" if lines else ""


def cells_of(program: str, cells: Sequence[tuple[int, str]]) -> list[str]:
    """The texts of the cells of a changed program; ``cells`` are numbers and texts before it.

    Raises SourceError where a cell can no longer be told from the next one.
    """
    changed = _split(program, [number for number, _ in cells])
    return [_with_magics(new, old) for new, (_, old) in zip(changed, cells, strict=True)]


def is_one(data: bytes) -> bool:
    """Whether bytes look like a notebook, whatever the file is called."""
    return data.lstrip()[:1] == b"{" and b'"cells"' in data and b'"nbformat"' in data


def code_cells(data: bytes) -> list[Cell]:
    """The code cells of a notebook. Raises SourceError for what is none."""
    return list(_code_cells(_text(data)))


def with_program(data: bytes, program: bytes) -> bytes:
    """The notebook with the cells of a changed ``program``.

    Raises SourceError where a cell can no longer be told from the next one.
    """
    text = _text(data)
    cells = list(_code_cells(text))
    changed = cells_of(program.decode("utf-8"), [(cell.number, cell.text) for cell in cells])
    for cell, restored in reversed(list(zip(cells, changed, strict=True))):
        if restored != cell.text:
            written = _as_json(restored, text[cell.start : cell.end], text)
            text = text[: cell.start] + written + text[cell.end :]
    return text.encode("utf-8")


def placed(program: str, location: Location) -> Location:
    """A place in a notebook's program as a place in its cell."""
    above = program.split("\n")[: location.row]
    for distance, line in enumerate(reversed(above)):
        header = _HEADER.match(line)
        if header is not None:
            return Location(max(distance, 1), location.column, int(header[1]))
    return location


def cell_text(program: str, cell: int) -> str:
    """The text of a cell in a notebook's program."""
    lines = program.split("\n")
    start = lines.index(_header(cell)) + 1
    ends = (row for row in range(start, len(lines)) if _HEADER.match(lines[row]))
    return "\n".join(lines[start : next(ends, len(lines))])


class Places:
    """Where places in the program of a notebook are in its cells and in its file."""

    def __init__(self, data: bytes) -> None:
        """``data`` is the notebook. Raises SourceError for what is none."""
        text = _text(data)
        cells = list(_code_cells(text))
        self._program = program_of((cell.number, cell.text) for cell in cells)
        self._lines = _file_lines(text, cells)

    def __call__(self, location: Location) -> Location:
        """A place in the program, as a place in its cell."""
        found = placed(self._program, location)
        return replace(found, line=self._lines.get((found.cell, found.row)))


def _file_lines(text: str, cells: Iterable[Cell]) -> dict[tuple[int | None, int], int]:
    """The line of the file that each row of each cell stands on, by cell and row."""
    lines: dict[tuple[int | None, int], int] = {}
    seen, line = 0, 1
    for cell in cells:
        row = 1
        for place, part in _parts(text, cell):
            line += text.count("\n", seen, place)
            seen = place
            # A row may be made of several strings: the last one counts.
            rows = range(row, row + part.count("\n") + 1)
            lines.update(((cell.number, row), line) for row in rows)
            row = rows[-1]
    return lines


def _parts(text: str, cell: Cell) -> Iterator[tuple[int, str]]:
    """The strings that make up the text of a cell, and where they stand."""
    if text[cell.start] == '"':
        yield cell.start, cell.text
        return
    for place in _elements(text, cell.start):
        yield place, _DECODER.raw_decode(text, place)[0]


def _split(program: str, numbers: list[int]) -> list[str]:
    """The text of each cell of a program. What stands above the first goes into it."""
    lines = program.removesuffix("\n").split("\n")
    bounds = [row for row, line in enumerate(lines) if _HEADER.match(line)]
    if [lines[row] for row in bounds] != [_header(number) for number in numbers]:
        raise SourceError("not written: the cells can no longer be told apart")
    bounds.append(len(lines))
    cells = [lines[start + 1 : end] for start, end in pairwise(bounds)]
    if cells:
        cells[0] = lines[: bounds[0]] + cells[0]
    return ["\n".join(cell) for cell in cells]


# --- magics ---------------------------------------------------------------------------------------


def _without_magics(text: str) -> str:
    """The cell's text as Python: a stand-in on each line that only IPython understands."""
    lines = text.split("\n")
    program = []
    indent: str | None = None  # of the magic that goes on in the next line
    foreign = _is_foreign(lines)
    for number, (line, magic) in enumerate(zip(lines, _magic_lines(lines), strict=True)):
        indent = "" if foreign else _indent(line) if indent is None else indent
        gives = None if foreign else _GIVES.match(line)
        stand_in = f"{gives[1].rstrip()} = __ipython__" if gives else "pass"
        program.append(f"{indent}{stand_in}  # ipython {number}" if magic else line)
        if not (magic and line.endswith("\\")):
            indent = None
    return "\n".join(program)


def _with_magics(text: str, original: str) -> str:
    """The text with the original lines in the place of their stand-ins."""
    lines = original.split("\n")

    def restored(line: str) -> str:
        match = _STAND_IN.fullmatch(line.strip())
        if match is None:
            return line
        return lines[int(match[1])]

    return "\n".join(restored(line) for line in text.split("\n"))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _is_foreign(lines: list[str]) -> bool:
    """Whether a whole cell is no Python: ``%%bash``."""
    first = next((line for line in lines if line.strip()), "")
    return first.startswith("%%") and not first.startswith(_PYTHON_MAGICS)


def _magic_lines(lines: list[str]) -> Iterator[bool]:
    """Which lines only IPython understands. A line may begin with the operator `%` or `!=`."""
    if _is_foreign(lines):
        yield from (bool(line.strip()) for line in lines)
        return
    continued = False
    for line in lines:
        magic = continued or bool(_MAGIC.match(line))
        yield magic
        continued = magic and line.endswith("\\")


# --- JSON with positions --------------------------------------------------------------------------


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"is not a notebook: byte {error.start} is not UTF-8") from None


def _reason(error: Exception) -> str:
    """What is wrong with a notebook's JSON, from what reading it raised."""
    if isinstance(error, json.JSONDecodeError):
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    return "it has to be an object with a list `cells` of objects with `cell_type` and `source`"


def _code_cells(text: str) -> Iterator[Cell]:
    """The code cells of a notebook. Raises SourceError where it is none."""
    if not text.strip():
        return
    try:
        content = json.loads(text)
        cells = content["cells"]
        kinds = [(cell["cell_type"], _joined(cell["source"])) for cell in cells]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise SourceError(f"is not a valid notebook: {_reason(error)}") from None
    if _language(content) != "python":
        return
    start = _member(text, 0, "cells")
    places = list(_elements(text, start))
    for number, ((kind, source), where) in enumerate(zip(kinds, places, strict=True), 1):
        if kind == "code":
            first = _member(text, where, "source")
            yield Cell(number, source, first, _end(text, first))


def _joined(source: str | list[str]) -> str:
    return source if isinstance(source, str) else "".join(source)


def _language(content: dict[str, Any]) -> str:
    """What the cells of a notebook are written in; Python where it does not say."""
    try:
        return str(content["metadata"]["language_info"]["name"])
    except (KeyError, TypeError):
        return "python"


def _skip_space(text: str, place: int) -> int:
    match = _SPACE.match(text, place)
    return match.end() if match is not None else place


def _end(text: str, place: int) -> int:
    """Where the JSON value that starts at ``place`` ends."""
    _, end = _DECODER.raw_decode(text, place)
    return end


def _member(text: str, place: int, name: str) -> int:
    """Where the value of a member of the object at ``place`` starts; of equal names the last."""
    found = -1
    place = _skip_space(text, place) + 1
    while text[place := _skip_space(text, place)] == '"':
        key, place = _DECODER.raw_decode(text, place)
        place = _skip_space(text, _skip_space(text, place) + 1)
        if key == name:
            found = place
        place = _skip_space(text, _end(text, place))
        place += text[place] == ","
    return found


def _elements(text: str, place: int) -> Iterator[int]:
    """Where the elements of the array at ``place`` start."""
    place = _skip_space(text, place + 1)
    while text[place] != "]":
        yield place
        place = _skip_space(text, _end(text, place))
        if text[place] == ",":
            place = _skip_space(text, place + 1)


def _as_json(source: str, old: str, text: str) -> str:
    """The cell's text as JSON, laid out like the value that it replaces."""
    ascii_only = text.isascii() and "\\u" in text

    def dumped(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_only)

    if not old.startswith("["):
        return dumped(source)
    pieces = [dumped(line) for line in source.splitlines(keepends=True)]
    layout = re.match(r"\[(\s*)", old)
    opening = layout[1] if layout is not None else ""
    closing = re.search(r"(\s*)\]\Z", old)
    separator = f",{opening}" if "\n" in opening else ", "
    ending = closing[1] if closing is not None else ""
    return f"[{opening}{separator.join(pieces)}{ending}]" if pieces else "[]"
