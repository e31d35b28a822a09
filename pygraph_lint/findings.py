"""What a check says: findings, and the rewrites offered for them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.domain.region import Region as Region
from pygraph_lint.analysis.queries.interface import ProjectView


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a file: 1-based row, 1-based column in characters. In a report on a notebook
    ``cell`` is the number of the cell (from 1, all cells counted), the row counts in it, and
    ``line`` is the line of the notebook's JSON.
    """

    row: int
    column: int
    cell: int | None = None
    line: int | None = None

    @property
    def file_line(self) -> int:
        """The line of the file itself, which services show."""
        return self.line or self.row

    @property
    def shown_row(self) -> str:
        """The row, and in a notebook its cell."""
        return str(self.row) if self.cell is None else f"cell {self.cell}:{self.row}"

    def __str__(self) -> str:
        return f"{self.shown_row}:{self.column}"


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace what lies from ``location`` up to ``end_location`` by ``content``."""

    content: str
    location: Location
    end_location: Location


@dataclass(frozen=True, slots=True)
class Fix:
    """A rewrite that was tried on a finding.

    ``applicability`` is ``safe``, ``unsafe`` or ``declined``; ``message`` says what it does,
    ``reason`` why it is unsafe or was declined (empty when safe). A declined fix has no edits.
    ``remains`` says that the finding stays, for something that is then done less often; ``adds``
    has the code of each finding that is new, where that is done now. ``rewrite`` names the rewrite,
    and ``condition`` the precondition that declined it.
    """

    applicability: str
    message: str
    reason: str = ""
    edits: tuple[Edit, ...] = ()
    remains: bool = False
    adds: tuple[str, ...] = ()
    rewrite: str = ""
    condition: str = ""

    def with_newline(self, newline: str) -> Fix:
        """The fix with its new lines ended the way a file ends its own."""
        edits = (
            replace(edit, content=re.sub(r"\r\n|\r|\n", newline, edit.content))
            for edit in self.edits
        )
        return replace(self, edits=tuple(edits))


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem at one place. ``consequences`` has the keys of ``catalogue.CONSEQUENCES``, for
    this form of the code on the target torch; ``gb_type`` and ``gb_id`` are torch's names of the
    graph break, empty where none is claimed or known. ``only_if`` are conditions of the function
    under which it happens, the innermost three. ``view`` is what the project says about the
    file, for rewrites.
    """

    code: str
    name: str
    message: str
    filename: str
    location: Location
    end_location: Location
    region: Region | None = None
    evidence: tuple[str, ...] = ()
    only_if: tuple[str, ...] = ()
    consequences: dict[str, Any] = field(default_factory=dict)
    gb_type: str = ""
    gb_id: str = ""
    preview: bool = False
    event: Event | None = field(default=None, compare=False)
    fix: Fix | None = field(default=None, compare=False)
    view: ProjectView = field(default=ProjectView(), compare=False, repr=False)

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        """Order of reports: by file, then position, then code."""
        return (self.filename, self.location.row, self.location.column, self.code)


def unreadable(
    path: Path, text: str, code: str = "PG002", line: int = 1, column: int = 1
) -> Finding:
    """A file that could not be read, parsed or written, and why; line 0: it is not known where."""
    place = Location(max(line, 1), max(column, 1))
    name = "syntax-error" if code == "PG001" else "unreadable-file"
    return Finding(code, name, text, str(path), place, place)
