"""The ``check`` command, from arguments to exit code."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from pygraph_lint.commands.arguments import Check
from pygraph_lint.commands.output import Progress, complain, note, report_findings, write
from pygraph_lint.commands.own_rules import rules_here
from pygraph_lint.errors import SettingsError, SourceError
from pygraph_lint.files import notebooks
from pygraph_lint.files.cache import default_folder
from pygraph_lint.files.parallel import without_collecting
from pygraph_lint.files.paths import stamps
from pygraph_lint.files.settings import DECLARED, in_toml
from pygraph_lint.files.sources import write_atomically
from pygraph_lint.files.suppressions import add_noqa
from pygraph_lint.findings import Finding, unreadable
from pygraph_lint.project import baseline
from pygraph_lint.project.baseline import without_known
from pygraph_lint.project.runner import ALWAYS, Runner, by_file, readers
from pygraph_lint.report import count, in_cells, shown_path

STDIN = "-"
NOTHING_CHECKED = "Nothing was checked."
NOTHING_FIXED = "note: --unsafe-fixes has no effect without --fix or --diff"


def check(given: Check) -> int:
    """Run ``check``; the exit code. Raises SettingsError for wrong settings."""
    _refuse_contradictions(given)
    if given.watch:
        return _watch(given)
    return check_once(given)


def _refuse_contradictions(given: Check) -> None:
    """Raise SettingsError for what would else be left undone without a word."""
    if given.isolated and given.config is not None:
        raise SettingsError("--isolated reads no settings file, --config names one; leave one out")
    if "" in given.paths:
        raise SettingsError("a path is empty")
    if given.settings.get("select") == ():
        raise SettingsError("--select names no rule")
    if STDIN in given.paths and len(given.paths) > 1:
        raise SettingsError("`-` stands for stdin and cannot be given along with other paths")
    if STDIN in given.paths and given.add_noqa:
        raise SettingsError("--add-noqa writes to files; it cannot be used with stdin")
    if given.add_noqa and given.write_baseline:
        raise SettingsError("--add-noqa and --write-baseline cannot be used together")
    if given.fixes and (given.add_noqa or given.write_baseline):
        option = "--add-noqa" if given.add_noqa else "--write-baseline"
        raise SettingsError(f"{option} cannot be used with --fix or --diff")


def check_once(given: Check) -> int:
    """One run of ``check``; the exit code."""
    progress = Progress()
    with without_collecting():
        runner = make_runner(given, progress)
        try:
            return _run(given, runner)
        finally:
            progress.clear()


def make_runner(given: Check, progress: Progress) -> Runner:
    """What looks at the files, as the command line wants it."""
    folder = None if given.no_cache else given.cache_dir or default_folder()
    return Runner(
        rules=rules_here(given.config, given.isolated),
        overrides=given.settings,
        config=given.config,
        cache_folder=folder,
        jobs=given.jobs or _cores(),
        progress=progress,
        isolated=given.isolated,
    )


def _run(given: Check, runner: Runner) -> int:
    if STDIN in given.paths:
        files = _take_stdin(given, runner)
    else:
        files = runner.collect(given.paths)
        if not files and not runner.missing:
            note(given, "warning: there are no Python files under the given paths")
    if given.show_files or given.show_settings:
        return _show(given, runner, files)
    if given.unsafe_fixes and not given.fixes:
        note(given, NOTHING_FIXED)
    if given.fixes:
        from pygraph_lint.commands.fix import fix

        return fix(given, runner, files)
    return _report(given, runner, files)


def _take_stdin(given: Check, runner: Runner) -> list[Path]:
    """The name that what came by stdin goes by; nothing where it cannot be checked."""
    name, data = given.stdin_filename or "stdin.py", sys.stdin.buffer.read()
    if not name.endswith(notebooks.SUFFIX) and notebooks.is_one(data):
        raise SettingsError(
            "what comes by stdin is a notebook; name it as one: --stdin-filename book.ipynb"
        )
    return runner.take(Path(os.path.abspath(name)), data)


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _show(given: Check, runner: Runner, files: Sequence[Path]) -> int:
    """The files that would be checked, or the settings of the current folder."""
    if given.show_files:
        write("".join(f"{shown_path(str(path))}\n" for path in files))
        complain(runner.missing)
    if given.show_settings:
        settings = runner.resolver.of(Path.cwd())
        write(f"# settings of {settings.folder}\n")
        for key, declared in DECLARED.items():
            value = getattr(settings, declared.name)
            write(f"# {key}: not set\n" if value is None else f"{key} = {in_toml(value)}\n")
    return 2 if runner.missing else 0


def _report(given: Check, runner: Runner, files: Sequence[Path]) -> int:
    found = [*runner.missing, *runner.check(files)]
    if given.write_baseline is not None:
        return _write_baseline(given.write_baseline, given, runner, found)
    found = without_known(runner, found)
    if given.add_noqa:
        return _add_noqa(given, runner, found)
    if not given.statistics:
        found = runner.offer_fixes(found)
    nothing = not files and not found
    report_findings(given, runner, found, NOTHING_CHECKED if nothing else None)
    return exit_code(given, runner, found)


def exit_code(given: Check, runner: Runner, found: Sequence[Finding]) -> int:
    """2 where a path is missing or a folder cannot be read, 1 where something was found."""
    if runner.missing:
        return 2
    return 1 if found and not given.exit_zero else 0


def _write_baseline(path: Path, given: Check, runner: Runner, found: Sequence[Finding]) -> int:
    """Write the findings as known ones; say what that changes in a file that is there."""
    before = baseline.read(path) if path.exists() else None
    number = baseline.write(path, found, readers(runner))
    changes = ""
    if before is not None:
        new, gone = baseline.changes(before, baseline.read(path))
        changes = f" ({new} new, {gone} gone)"
    note(given, f"{count(number, 'finding')} written to {path}{changes}")
    return _unread(runner, found)


def _add_noqa(given: Check, runner: Runner, found: Sequence[Finding]) -> int:
    total = 0
    failed: list[Finding] = []
    for path, group in by_file(f for f in found if f.code not in (*ALWAYS, "PG003")).items():
        source = runner.source(path)
        changed, number = add_noqa(source.text, group)
        try:
            write_atomically(path, source.encode(changed), runner.content(path))
            total += number
        except SourceError as error:
            failed.append(unreadable(path, str(error)))
    complain(failed)
    note(given, f"added `# noqa` for {count(total, 'finding')}")
    return 2 if failed else _unread(runner, found)


def _unread(runner: Runner, found: Sequence[Finding]) -> int:
    """Say on stderr which files could not be checked; the exit code."""
    unread = [finding for finding in found if finding.code in ALWAYS]
    complain(in_cells(unread, runner.file_bytes))
    return 2 if runner.missing else int(bool(unread))


# -- watching


INTERRUPTED = 130
INTERVAL = 0.5  # seconds between two looks at the files
_CLEAR = "\x1b[2J\x1b[H"

State = dict[Path, tuple[int, int]]


def _watch(given: Check) -> int:
    """Check until interrupted; the exit code. Raises SettingsError where this makes no sense."""
    if STDIN in given.paths:
        raise SettingsError("--watch needs files to watch; it cannot be used with stdin")
    if (given.fix or given.fix_only) and not given.diff:
        raise SettingsError("--watch only reports; it cannot be used with --fix")
    try:
        _loop(replace(given, watch=False))
    except KeyboardInterrupt:
        # The announced way to end; nothing was being fixed.
        return INTERRUPTED


def _loop(once: Check) -> NoReturn:
    seen: State | None = None
    while True:
        now = _state(once)
        if now != seen:
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            check_once(once)
            print(f"[{datetime.now():%H:%M:%S}] watching; Ctrl-C ends it", file=sys.stderr)
            sys.stdout.flush()
            seen = now
        time.sleep(INTERVAL)


def _state(given: Check) -> State:
    """Size and modification time of each file that is checked."""
    return stamps(make_runner(given, Progress()).collect(given.paths))
