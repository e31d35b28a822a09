"""The ``check`` command, from arguments to exit code."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pygraph_lint import report
from pygraph_lint.commands import arguments
from pygraph_lint.errors import SettingsError
from pygraph_lint.files.cache import default_folder
from pygraph_lint.findings import Finding, Fix
from pygraph_lint.report.report import Report, shown_path
from pygraph_lint.rules.catalogue import load
from pygraph_lint.runner import ALWAYS, Runner, readers

STDIN = "-"
# Formats that show the rewrite offered for each finding, which costs time to work out.
_WITH_FIXES = ("full", "json", "sarif")


def check(given: argparse.Namespace) -> int:
    """Run ``check``; the exit code. Raises SettingsError for wrong settings."""
    progress = _Progress()
    cache = None
    if not given.no_cache:
        cache = Path(given.cache_dir) if given.cache_dir else default_folder()
    runner = Runner(
        rules=load(),
        overrides=arguments.overrides(given),
        config=Path(given.config).absolute() if given.config else None,
        cache_folder=cache,
        jobs=given.jobs or _cores(),
        progress=progress,
    )
    by_stdin = STDIN in given.paths
    if by_stdin:
        files = [_take_stdin(given, runner)]
    else:
        files = runner.collect(given.paths)
        if not files and not runner.missing:
            _say(given, "warning: there are no Python files under the given paths")
    mending = given.fix or given.fix_only or given.diff
    try:
        if mending:
            return _mend(given, runner, files, by_stdin)
        return _check_only(given, runner, files)
    finally:
        progress.clear()


def _take_stdin(given: argparse.Namespace, runner: Runner) -> Path:
    if len(given.paths) > 1:
        raise SettingsError("`-` stands for stdin and cannot be given along with other paths")
    path = Path(os.path.abspath(given.stdin_filename or "stdin.py"))
    runner.replace_content({path: sys.stdin.buffer.read()})
    return path


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _say(given: argparse.Namespace, text: str) -> None:
    if not given.quiet:
        print(text, file=sys.stderr)


# --- reporting only -----------------------------------------------------------------------------


def _check_only(given: argparse.Namespace, runner: Runner, files: Sequence[Path]) -> int:
    found = [*runner.missing, *runner.check(files)]
    text = readers(runner)
    if given.write_baseline:
        from pygraph_lint.files import baseline

        path = Path(given.write_baseline)
        count = baseline.write(path, found, text)
        _say(given, f"{_count(count, 'finding')} written to {path}")
        return 0
    found = _without_known(runner, files, found)
    if given.add_noqa:
        return _add_noqa(given, runner, found)
    if not given.statistics and _format(runner, files) in _WITH_FIXES:
        found = runner.offer_fixes(found)
    _report(given, runner, files, found)
    return 1 if found and not given.exit_zero else 0


def _without_known(
    runner: Runner, files: Sequence[Path], found: Sequence[Finding]
) -> list[Finding]:
    """The findings that no baseline holds."""
    paths: dict[Path, list[Path]] = {}
    for file in files:
        settings = runner.settings(file)
        if settings.baseline:
            paths.setdefault(_baseline_path(settings.folder, settings.baseline), []).append(file)
    left = list(found)
    if not paths:
        return left
    from pygraph_lint.files import baseline

    for path, covered in paths.items():
        names = {str(file) for file in covered}
        inside = [finding for finding in left if finding.filename in names]
        outside = [finding for finding in left if finding.filename not in names]
        kept, _ = baseline.subtract(inside, path, readers(runner))
        left = sorted([*outside, *kept], key=lambda finding: finding.sort_key)
    return left


def _baseline_path(folder: Path, name: str) -> Path:
    """A baseline named on the command line lies below the current folder, one in settings beside
    these.
    """
    here = Path(name)
    return here.absolute() if here.is_absolute() or here.exists() else folder / name


def _add_noqa(given: argparse.Namespace, runner: Runner, found: Sequence[Finding]) -> int:
    from pygraph_lint.errors import SourceError
    from pygraph_lint.files.sources import write_atomically
    from pygraph_lint.files.suppressions import add_noqa
    from pygraph_lint.runner import by_file

    total = 0
    failed = False
    for path, group in by_file(f for f in found if f.code not in (*ALWAYS, "PG003")).items():
        source = runner.source(path)
        changed, count = add_noqa(source.text, group)
        try:
            write_atomically(path, source.encode(changed), runner.content(path))
            total += count
        except SourceError as error:
            print(f"{shown_path(str(path))}:1:1: PG002 {error}", file=sys.stderr)
            failed = True
    _say(given, f"{_count(total, 'finding')} silenced")
    return 2 if failed else 0


def _format(runner: Runner, files: Sequence[Path]) -> str:
    """The output format, which is that of the current folder's settings."""
    return runner.resolver.of(Path.cwd()).output_format


def _report(
    given: argparse.Namespace, runner: Runner, files: Sequence[Path], found: Sequence[Finding]
) -> None:
    form = _format(runner, files)
    if given.statistics:
        text = _statistics(found, runner, form)
    else:
        text = report.render(form, Report(found, runner.rules, readers(runner)))
    if given.output_file:
        try:
            Path(given.output_file).write_text(text, encoding="utf-8")
        except OSError as error:
            reason = error.strerror or error
            raise SettingsError(f"{given.output_file}: cannot be written: {reason}") from None
    else:
        _print(text)
    if not given.quiet and form in ("concise", "full") and not given.statistics:
        _print(_summary(found, runner, form, mended=given.fix or given.fix_only))


def _print(text: str) -> None:
    """Write to stdout what may hold characters that a terminal's encoding lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _statistics(found: Sequence[Finding], runner: Runner, form: str) -> str:
    counts = Counter((finding.code, finding.name) for finding in found)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    if form == "json":
        import json

        rows = [{"code": code, "name": name, "count": n} for (code, name), n in ordered]
        return json.dumps(rows, indent=2) + "\n"
    return "".join(f"{count}\t{code}\t{name}\n" for (code, name), count in ordered)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _summary(found: Sequence[Finding], runner: Runner, form: str, mended: bool) -> str:
    """One line; what `--fix` could do is only told before it was done (`mended`)."""
    if not found:
        return "All checks passed.\n"
    files = len({finding.filename for finding in found})
    text = f"Found {_count(len(found), 'finding')} in {_count(files, 'file')}."
    offered = Counter(finding.fix.applicability for finding in found if finding.fix is not None)
    if form in _WITH_FIXES:
        if offered["safe"]:
            text += f" `--fix` mends {offered['safe']}."
        if offered["unsafe"]:
            text += f" `--fix --unsafe-fixes` mends {offered['unsafe']} more."
        return text + "\n"
    rules = [runner.rules[f.code] for f in found if f.code in runner.rules]
    mendable = sum(rule.fix != "none" for rule in rules)
    if mendable and not mended:
        text += f" {mendable} of a kind that `--fix` may mend; `--diff` shows how."
    return text + "\n"


# --- mending ------------------------------------------------------------------------------------


def _mend(given: argparse.Namespace, runner: Runner, files: Sequence[Path], by_stdin: bool) -> int:
    from pygraph_lint.fixes import loop

    mended = loop.mend(runner, files, given.unsafe_fixes)
    problems: list[Finding] = []
    if given.diff:
        _print("".join(_diff(path, mended, runner) for path in sorted(mended.after)))
        count = _count(len(mended.applied), "fix").replace("fixs", "fixes")
        _say(given, f"{count} in {_count(len(mended.after), 'file')} would be made")
        return 1 if mended.after and not given.exit_zero else 0
    if by_stdin:
        # The mended source goes to stdout, so the report goes to stderr.
        sys.stdout.buffer.write(runner.content(files[0]))
        sys.stdout.flush()
        sys.stdout = sys.stderr
    else:
        problems = loop.write(mended)
    unwritten = {finding.filename for finding in problems}
    applied = [one for one in mended.applied if one[0].filename not in unwritten]
    if given.show_fixes and applied:
        _print(_shown_fixes(applied))
    left = _without_known(runner, files, [*runner.missing, *mended.findings])
    found = [*problems] if given.fix_only else [*problems, *left]
    if _format(runner, files) in _WITH_FIXES:
        found = runner.offer_fixes(found)
    _report(given, runner, files, found)
    if applied:
        _say(given, f"Mended {_count(len(applied), 'finding')}.")
    if problems:
        return 2
    if applied and given.exit_non_zero_on_fix:
        return 1
    return 1 if found and not given.exit_zero else 0


def _diff(path: Path, mended: object, runner: Runner) -> str:
    from pygraph_lint.files.sources import decode
    from pygraph_lint.fixes.loop import Mended

    assert isinstance(mended, Mended)
    name = shown_path(str(path))
    before = decode(mended.before[path]).text.splitlines(keepends=True)
    after = decode(mended.after[path]).text.splitlines(keepends=True)
    lines = []
    for line in difflib.unified_diff(before, after, name, name):
        lines.append(line)
        if not line.endswith(("\n", "\r")):
            lines.append("\n\\ No newline at end of file\n")
    return "".join(lines)


def _shown_fixes(applied: Sequence[tuple[Finding, Fix]]) -> str:
    lines = []
    for finding, fix in applied:
        place = f"{shown_path(finding.filename)}:{finding.location.row}"
        safety = "" if fix.applicability == "safe" else f" (unsafe: {fix.reason})"
        lines.append(f"mended {place}: {finding.code} {fix.message}{safety}\n")
    return "".join(sorted(lines))


# --- progress -----------------------------------------------------------------------------------


class _Progress:
    """A line on a terminal's stderr that says how far a long run is; nothing anywhere else."""

    _PATIENCE = 0.7

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown = False
        self._terminal = sys.stderr.isatty()

    def __call__(self, what: str, done: int, total: int) -> None:
        if not self._terminal or time.monotonic() - self._started < self._PATIENCE:
            return
        if done >= total:
            self.clear()
            return
        filled = 24 * done // max(total, 1)
        bar = "#" * filled + "." * (24 - filled)
        sys.stderr.write(f"\r{what:8} [{bar}] {done}/{total} files ")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r" + " " * 60 + "\r")
            sys.stderr.flush()
            self._shown = False
