"""Marked training loops, as the files of `marks/` describe them.

A file holds the loops of one package (or, `own.toml`, those of `loops/`). Each loop has parts: a
file, the lines of it that belong to the loop, the marks in them, and lines that may be reported
or not ("either"), which count for nothing. A mark is `[line, kind, why]`.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
MARKS = FOLDER / "marks"
OWN_LOOPS = FOLDER / "loops"

HALVES = ("develop", "held_out")
#: Public repositories, and frameworks, both marked later: rules are worked on with the first, the
#: other is only scored. `later` and `reserve` were marked last; only `later` is worked on with.
GROUPS = (*HALVES, "fresh", "unseen", "frameworks", "frameworks_unseen", "later", "reserve")
#: Those whose single lines may be looked at.
OPEN = ("develop", "held_out", "fresh", "frameworks", "later")
KINDS = ("sync", "copy", "allocator", "synchronize")


class MarksError(Exception):
    """A file of marks, or a file that it refers to, is not as it should be."""


@dataclass(frozen=True)
class Mark:
    """A line that costs in every step: its kind, and why."""

    line: int
    kind: str
    why: str


@dataclass(frozen=True)
class Part:
    """Lines of one file that belong to a loop. `lines` are inclusive ranges; `either` are lines."""

    file: str
    sha256: str
    lines: tuple[tuple[int, int], ...]
    marks: tuple[Mark, ...]
    either: tuple[int, ...]

    def covers(self, line: int) -> bool:
        """Whether `line` belongs to the loop."""
        return any(first <= line <= last for first, last in self.lines)


@dataclass(frozen=True)
class Loop:
    """One training loop of the group `half`. `package` is None for one of this repository."""

    name: str
    title: str
    clean: bool
    half: str
    package: Package | None
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Package:
    """A package of the index, and whether its wheel or its source distribution is read; or a
    public repository (`git`): its owner and name, and a commit as its version.
    """

    name: str
    version: str
    source: str

    @property
    def folder(self) -> str:
        """The name of the folder that it is unpacked to."""
        version = self.version[:12] if self.source == "git" else self.version
        return f"{self.name.replace('/', '+')}-{version}"


def half_of(name: str) -> str:
    """The half that a package (or a loop of this repository) belongs to, by a fixed hash."""
    return HALVES[hashlib.sha256(name.encode()).digest()[0] % 2]


def _part(row: Mapping[str, Any], where: str) -> Part:
    marks = tuple(Mark(line, kind, why) for line, kind, why in row["marks"])
    lines = tuple((first, last) for first, last in row["lines"])
    part = Part(row["file"], row["sha256"], lines, marks, tuple(line for line, _ in row["either"]))
    for line in [*(mark.line for mark in marks), *part.either]:
        if not part.covers(line):
            raise MarksError(f"{where}: line {line} of {part.file} is outside of the loop's lines")
    for mark in marks:
        if mark.kind not in KINDS:
            raise MarksError(f"{where}: {mark.kind!r} is not one of {', '.join(KINDS)}")
    return part


def _loops(path: Path, half: str) -> Iterator[Loop]:
    table = tomllib.loads(path.read_text())
    package = None
    if "package" in table:
        package = Package(table["package"], table["version"], table["source"])
    for row in table["loop"]:
        parts = tuple(_part(part, f"{path.name}, {row['name']}") for part in row["part"])
        loop = Loop(row["name"], row["title"], row["clean"], half, package, parts)
        if loop.clean and any(part.marks for part in parts):
            raise MarksError(f"{path.name}: {loop.name} is clean but has marks")
        if half in HALVES and half_of(package.name if package else loop.name) != half:
            raise MarksError(f"{path.name}: {loop.name} does not belong to the half {half!r}")
        yield loop


def load(folder: Path = MARKS) -> list[Loop]:
    """All loops, those of this repository last. Raises MarksError for what does not fit."""
    found = [
        loop
        for half in GROUPS
        for path in sorted((folder / half).glob("*.toml"))
        for loop in _loops(path, half)
    ]
    names = [loop.name for loop in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise MarksError(f"more than one loop is named {', '.join(sorted(twice))}")
    return sorted(found, key=lambda loop: loop.package is None)


def source_of(loop: Loop, part: Part, packages: Path) -> Path:
    """Where the file of a part lies."""
    if loop.package is None:
        return OWN_LOOPS / loop.half / part.file
    return packages / loop.package.folder / part.file


def read_checked(path: Path, part: Part) -> str:
    """The text of a part's file. Raises MarksError if it is missing or not the marked one."""
    if not path.is_file():
        raise MarksError(f"{path} is missing: run the step `fetch` first")
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise MarksError(f"{path} is not the file that was marked: its SHA-256 differs")
    return data.decode()
