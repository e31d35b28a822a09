"""A finding of the linter as far as scoring needs it, and places as logical statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.lint_truth.statements import unpack_lines

#: (file, line) -> first line of the logical statement there.
StatementOf = Callable[[str, int], int]
#: A part of a statement: first line and column, last line and the column behind it; columns from 0.
Part = tuple[int, int, int, int]


@dataclass(frozen=True)
class Finding:
    """One finding of the linter.

    `file` is "package/path.py"; the consequences are the linter's own words for them; `gb_type`
    is Dynamo's name for the break, empty where the linter gives none. `column` counts from 0.
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
    column: int = 0


def inside(finding: Finding, part: Part) -> bool:
    """Whether a finding starts inside a part of a statement."""
    return part[:2] <= (finding.line, finding.column) < part[2:]


def evaluated(findings: Iterable[Finding], truth: Mapping[str, Any]) -> list[Finding]:
    """The findings without those in parts of statements that no program of `truth` evaluated."""
    unevaluated = truth.get("unevaluated", {})
    return [
        finding
        for finding in findings
        if not any(inside(finding, tuple(part)) for part in unevaluated.get(finding.file, ()))
    ]


def statements_of(packed: Mapping[str, str], statement: StatementOf) -> set[tuple[str, int]]:
    """Packed lines by file -> the statements they belong to."""
    return {
        (file, statement(file, line))
        for file, lines in packed.items()
        for line in unpack_lines(lines)
    }
