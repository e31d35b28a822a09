"""What ``check`` prints: the report, the summary line, notes."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pygraph_lint import report
from pygraph_lint.commands.arguments import Check
from pygraph_lint.errors import SettingsError
from pygraph_lint.findings import Finding
from pygraph_lint.project.runner import Runner, readers
from pygraph_lint.report import FOR_READING, Report, colored, concise, count


def note(given: Check, text: str) -> None:
    """Say something beside the report, on stderr."""
    if not given.quiet:
        print(text, file=sys.stderr)


def write(text: str, file: Path | None = None) -> None:
    """Write to a file or to stdout what may hold characters that cannot be shown there. Raises
    SettingsError for a file that cannot be written.
    """
    if file is None:
        encoding = sys.stdout.encoding or "utf-8"
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        return
    try:
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise SettingsError(f"{file}: cannot be written: {error.strerror or error}") from None


def report_findings(
    given: Check, runner: Runner, found: Sequence[Finding], summary: str | None = None
) -> None:
    """Print the findings, or their statistics; ``summary`` replaces the usual last line."""
    form = runner.output_format
    text_of = readers(runner)
    found = report.in_cells(found, runner.file_bytes)
    color = given.output_file is None and colored(sys.stdout, given.color)
    if given.statistics:
        text = _statistics(found, form)
    else:
        text = report.render(form, Report(found, runner.rules, text_of, color))
    write(text, given.output_file)
    if not given.quiet and form in FOR_READING and not (given.statistics and found):
        write(f"{_summary(found) if summary is None else summary}\n")


def _statistics(found: Sequence[Finding], form: str) -> str:
    counts = Counter((finding.code, finding.name) for finding in found)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if form == "json":
        import json

        rows = [{"code": code, "name": name, "count": n} for (code, name), n in ordered]
        return json.dumps(rows, indent=2) + "\n"
    return "".join(f"{number}\t{code}\t{name}\n" for (code, name), number in ordered)


def _summary(found: Sequence[Finding]) -> str:
    """One line: how many findings there are, and how many of them can be fixed."""
    if not found:
        return "All checks passed."
    files = len({finding.filename for finding in found})
    text = f"Found {count(len(found), 'finding')} in {count(files, 'file')}."
    offered = Counter(finding.fix.applicability for finding in found if finding.fix is not None)
    safe, unsafe = offered["safe"], offered["unsafe"]
    if safe and unsafe:
        return f"{text} [*] {safe} fixable with `--fix`, {unsafe} more with `--unsafe-fixes`."
    if safe:
        return f"{text} [*] {safe} fixable with `--fix`."
    if unsafe:
        return f"{text} {unsafe} fixable with `--fix --unsafe-fixes`."
    return text


def complain(findings: Iterable[Finding]) -> None:
    """Say on stderr what could not be read or written."""
    for finding in findings:
        print(concise.line(finding), file=sys.stderr)


_PATIENCE = 0.7  # seconds before anything is shown
_WIDTH = 24


class Progress:
    """A line on a terminal's stderr that says how far a long run is; nothing anywhere else."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = False
        self._terminal = sys.stderr.isatty()

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` files are finished."""
        if not self._terminal or time.monotonic() - self._started < _PATIENCE:
            return
        if done >= total:
            self.clear()
            return
        filled = _WIDTH * done // max(total, 1)
        bar = "#" * filled + "." * (_WIDTH - filled)
        sys.stderr.write(f"\r{what:8} [{bar}] {done}/{total} files ")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()
            self._shown = False
