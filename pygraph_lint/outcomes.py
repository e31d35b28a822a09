"""What checking one file gave."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from pygraph_lint.files import suppressions
from pygraph_lint.findings import Finding, Location


@dataclass(frozen=True, slots=True)
class Outcome:
    """What checking one file gave, before selection and suppression."""

    findings: tuple[Finding, ...]
    directives: tuple[suppressions.Directive, ...]

    def at(self, path: Path) -> Outcome:
        """The same with its findings filed under ``path``, wherever it was first made."""
        filename = str(path)
        found = tuple(replace(finding, filename=filename) for finding in self.findings)
        return Outcome(found, self.directives)


def finding_of(problem: tuple[str, str, int, int], path: Path) -> Finding:
    """The finding for a file that cannot be read or parsed: of its code, text, line and column."""
    code, text, line, column = problem
    place = Location(max(line, 1), max(column, 1))
    name = "syntax-error" if code == "PG001" else "unreadable-file"
    return Finding(code, name, text, str(path), place, place)
