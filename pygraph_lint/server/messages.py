"""What the front process and the worker say to each other, and how it crosses a pipe.

Places are 1-based rows and columns, in characters. A notebook's are those of its program.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

_LENGTH = struct.Struct("<Q")

Place = tuple[int, int]
LINTER = "pygraph-lint"  # the source of its own findings


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace what lies from ``start`` up to ``end`` by ``content``."""

    start: Place
    end: Place
    content: str


@dataclass(frozen=True, slots=True)
class Traced:
    """What a trace says of a finding, or of a place without one: ``status`` is one of the words of
    docs/how-to/trace.md.
    """

    status: str
    said: str


@dataclass(frozen=True, slots=True)
class Row:
    """A finding as an editor shows it. ``severity`` is ``error``, ``warning``, ``information`` or
    ``hint``; ``about`` are the paragraphs of Markdown that a hover shows. ``fixable`` says that
    some rewrite serves the rule; ``source`` names who says so: the linter, or a trace.
    """

    code: str
    name: str
    message: str
    start: Place
    end: Place
    severity: str
    url: str = ""
    about: tuple[str, ...] = ()
    fixable: bool = False
    unused: bool = False
    source: str = LINTER
    traced: Traced | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """The fix that is offered for a finding: ``applicability`` as in ``findings.Fix``."""

    applicability: str
    message: str
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class Lens:
    """A line of text over the function at ``row``; ``path`` and ``place`` are where it leads."""

    row: int
    title: str
    path: Path
    place: Place


# --- to the worker --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setup:
    """The folders that are open, the settings that the editor gives by field name, whether what is
    kept of earlier runs is used, and whether lenses are wanted. Everything that was known before is
    forgotten.
    """

    folders: tuple[Path, ...]
    overrides: Mapping[str, Any] = field(default_factory=dict)
    cache: bool = True
    lenses: bool = True


@dataclass(frozen=True, slots=True)
class Text:
    """The text of an open file; ``serial`` grows with every change of any file."""

    path: Path
    serial: int
    text: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A file was saved: files whose check takes long are checked now."""

    path: Path


@dataclass(frozen=True, slots=True)
class Closed:
    """A file is no longer open."""

    path: Path


@dataclass(frozen=True, slots=True)
class OnDisk:
    """Files that changed, appeared or went away on the disk."""

    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """A question about the text ``serial`` of a file. ``what``: ``fixes`` (gives an Offer or None
    for each finding), ``fix all`` or ``ignore`` the finding ``number`` (give TextEdits).
    """

    id: int
    what: str
    path: Path
    serial: int
    number: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """The answer to a question is not wanted any more."""

    id: int


ToWorker = Setup | Text | Saved | Closed | OnDisk | Ask | Cancel


# --- from the worker ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Checking:
    """What the worker begins to look at: where it ends without a word, this was the reason."""

    path: Path
    serial: int


@dataclass(frozen=True, slots=True)
class Found:
    """The findings of one text."""

    path: Path
    serial: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Lenses:
    """The lenses of one text."""

    path: Path
    serial: int
    lenses: tuple[Lens, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question; ``value`` None: the text has changed, or there is none."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a first read is: ``done`` of ``total`` files (0: not known yet)."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is left to do."""


@dataclass(frozen=True, slots=True)
class Said:
    """Something for the user; ``level`` is ``error``, ``warning`` or ``info``."""

    level: str
    text: str


FromWorker = Checking | Found | Lenses | Answer | Reading | Idle | Said


# --- the pipe -------------------------------------------------------------------------------------


def packed(message: object) -> bytes:
    """A message with its length in front."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def length(header: bytes) -> int:
    """The length of the message behind a header of ``HEADER`` bytes."""
    size: int = _LENGTH.unpack(header)[0]
    return size


def unpacked(data: bytes) -> Any:
    """The message in the bytes behind a header."""
    return pickle.loads(data)


HEADER = _LENGTH.size


def read(stream: BinaryIO) -> Any:
    """The next message; None at the end of the stream."""
    header = stream.read(HEADER)
    if len(header) < HEADER:
        return None
    data = stream.read(length(header))
    return unpacked(data)
