"""A finding of the linter as far as scoring needs it, and places as logical statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.lint_truth.statements import unpack_lines

#: (file, line) -> first line of the logical statement there.
StatementOf = Callable[[str, int], int]


@dataclass(frozen=True)
class Finding:
    """One finding of the linter.

    `file` is "package/path.py"; the consequences are the linter's own words for them; `gb_type`
    is Dynamo's name for the break, empty where the linter gives none.
    """

    file: str
    line: int
    code: str
    message: str
    breaks: bool
    errors: bool
    syncs: bool
    not_capturable: bool
    preview: bool
    gb_type: str = ""


def statements_of(packed: Mapping[str, str], statement: StatementOf) -> set[tuple[str, int]]:
    """Packed lines by file -> the statements they belong to."""
    return {
        (file, statement(file, line))
        for file, lines in packed.items()
        for line in unpack_lines(lines)
    }
