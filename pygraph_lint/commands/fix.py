"""``check --fix``, ``--fix-only`` and ``--diff``."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pygraph_lint.commands.arguments import Check
from pygraph_lint.commands.check import NOTHING_CHECKED, STDIN, exit_code
from pygraph_lint.commands.output import complain, note, report_findings, write
from pygraph_lint.files import notebooks
from pygraph_lint.files.sources import decode, with_source
from pygraph_lint.findings import Finding
from pygraph_lint.fixes.engine import loop
from pygraph_lint.project.baseline import without_known
from pygraph_lint.project.runner import ALWAYS, Runner
from pygraph_lint.report import count, in_cells, shown_path


def fix(given: Check, runner: Runner, files: Sequence[Path]) -> int:
    """Fix the files, or what came by stdin, or show the difference; the exit code."""
    fixed = loop.fix_files(runner, files, given.unsafe_fixes)
    if given.diff:
        return _show_diff(given, runner, fixed)
    problems: list[Finding] = []
    if STDIN in given.paths:
        # The fixed source goes to stdout, so the report goes to stderr.
        for path in files:
            sys.stdout.buffer.write(runner.file_bytes(path))
        sys.stdout.flush()
        sys.stdout = sys.stderr
    else:
        problems = loop.write(fixed)
    unwritten = {finding.filename for finding in problems}
    if unwritten:
        before = {path: old for path, old in fixed.before.items() if str(path) in unwritten}
        runner.replace_content(before)
        fixed.findings = runner.check(files)
    applied = [one for one in fixed.applied if one[0].filename not in unwritten]
    if given.show_fixes and applied:
        write(_shown_fixes(runner, replace(fixed, applied=applied), "fixed"))
    left = without_known(runner, [*runner.missing, *fixed.findings])
    if given.fix_only:
        found = [*problems, *(finding for finding in left if finding.code in ALWAYS)]
    else:
        found = runner.offer_fixes([*problems, *left])
    nothing = not files and not found
    summary = NOTHING_CHECKED if nothing else _summary_of_fixes_only(given, left)
    report_findings(given, runner, found, summary)
    if applied:
        note(given, f"Fixed {count(len(applied), 'finding')}.")
    if problems or runner.missing:
        return 2
    if applied and given.exit_non_zero_on_fix:
        return 1
    return exit_code(given, runner, found)


def _summary_of_fixes_only(given: Check, left: Sequence[Finding]) -> str | None:
    """With ``--fix-only`` the findings that are left are counted, not shown."""
    if not given.fix_only or not left:
        return None
    verb, what = ("is", "it") if len(left) == 1 else ("are", "them")
    number = count(len(left), "finding")
    return f"{number} {verb} left; the same command without `--fix-only` shows {what}."


def _show_diff(given: Check, runner: Runner, fixed: loop.Fixed) -> int:
    """Print the difference, and on stderr what could not be read; the exit code."""
    unread = [f for f in [*runner.missing, *fixed.findings] if f.code in ALWAYS]
    complain(in_cells(unread, runner.file_bytes))
    write("".join(_diff(path, runner, fixed) for path in sorted(fixed.after)))
    if given.show_fixes and fixed.applied:
        note(given, _shown_fixes(runner, fixed, "would fix").rstrip("\n"))
    fixes = count(len(fixed.applied), "fix")
    more = _unsafe_left(runner, fixed)
    also = f"; {more} more with `--unsafe-fixes`" if more else ""
    note(given, f"{fixes} in {count(len(fixed.after), 'file')} would be made{also}")
    return exit_code(given, runner, [*unread, *(finding for finding, _ in fixed.applied)])


def _unsafe_left(runner: Runner, fixed: loop.Fixed) -> int:
    """How many of the findings that are left have an unsafe fix."""
    left = runner.offer_fixes(without_known(runner, fixed.findings))
    return sum(
        finding.fix is not None
        and finding.fix.applicability == "unsafe"
        and runner.selection(Path(finding.filename)).fixable(finding.code)
        for finding in left
    )


def _diff(path: Path, runner: Runner, fixed: loop.Fixed) -> str:
    """The difference of a file, of a notebook cell by cell."""
    name = shown_path(str(path))
    if path.suffix != notebooks.SUFFIX:
        return _unified(name, decode(fixed.before[path]).text, decode(fixed.after[path]).text)
    before, after = (
        notebooks.code_cells(with_source(path, runner.file_bytes(path), program))
        for program in (fixed.before[path], fixed.after[path])
    )
    return "".join(
        _unified(f"{name}:cell {cell.number}", f"{cell.text}\n", f"{changed.text}\n")
        for cell, changed in zip(before, after, strict=True)
    )


def _unified(name: str, before: str, after: str) -> str:
    lines = []
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    for line in difflib.unified_diff(old, new, name, name):
        lines.append(line)
        if not line.endswith(("\n", "\r")):
            lines.append("\n\\ No newline at end of file\n")
    return "".join(lines)


def _shown_fixes(runner: Runner, fixed: loop.Fixed, verb: str) -> str:
    def before(path: Path) -> bytes:
        return with_source(path, runner.file_bytes(path), fixed.before[path])

    lines = []
    findings = in_cells([finding for finding, _ in fixed.applied], before)
    for finding, (_, made) in zip(findings, fixed.applied, strict=True):
        place = f"{shown_path(finding.filename)}:{finding.location.shown_row}"
        safety = "" if made.applicability == "safe" else f" (unsafe: {made.reason})"
        lines.append(f"{verb} {place}: {finding.code} {made.message}{safety}\n")
    return "".join(sorted(lines))
