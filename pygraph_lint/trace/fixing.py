"""Fixes after a trace: what really happened first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from pygraph_lint.findings import Finding, Fix
from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.runner import Runner
from pygraph_lint.trace.join import CONFIRMED, REFUTED, Joined

_Key = tuple[str, str, str]


class ChosenFixes(Runner):
    """A runner that offers fixes for ``wanted`` findings only."""

    wanted: Callable[[Finding], bool] | None = None

    def offer_fixes(self, findings: Sequence[Finding]) -> list[Finding]:
        """The wanted findings, each with the fix that is offered for it."""
        wanted = self.wanted
        chosen = findings if wanted is None else [one for one in findings if wanted(one)]
        return super().offer_fixes(chosen)


def fix(
    runner: ChosenFixes, files: Sequence[Path], joined: Joined, unsafe: bool
) -> list[tuple[bool, Finding, Fix]]:
    """Fix what was confirmed, then the rest without what was refuted, and write the files.

    Gives each fix made, with whether its finding was confirmed.
    """
    made: list[tuple[bool, Finding, Fix]] = []
    confirmed = {_key(runner, one.finding) for one in joined.judged if one.status == CONFIRMED}
    refuted = {_key(runner, one.finding) for one in joined.judged if one.status == REFUTED}
    for first in (True, False):
        runner.wanted = lambda finding, first=first: (
            _key(runner, finding) in confirmed if first else _key(runner, finding) not in refuted
        )
        fixed = loop.fix_files(runner, files, unsafe)
        unwritten = {problem.filename for problem in loop.write(fixed)}
        made += [(first, *one) for one in fixed.applied if one[0].filename not in unwritten]
    runner.wanted = None
    return made


def _key(runner: Runner, finding: Finding) -> _Key:
    """A finding without its line number, which moves when something above it is fixed."""
    lines = runner.source(Path(finding.filename)).text.splitlines()
    row = finding.location.row
    return finding.filename, finding.code, lines[row - 1].strip() if row <= len(lines) else ""
