"""``pygraph-lint trace``: what a program did, beside what its source says."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pygraph_lint.commands.arguments import Trace
from pygraph_lint.commands.output import write
from pygraph_lint.commands.own_rules import rules_here
from pygraph_lint.errors import SettingsError
from pygraph_lint.files.cache import default_folder
from pygraph_lint.report import count, shown_path
from pygraph_lint.trace import as_json, chrome, compare, fixing, html, sarif, text
from pygraph_lint.trace.advice import UNSAFE, fixable
from pygraph_lint.trace.document import NothingRecorded, TraceError, read_all
from pygraph_lint.trace.join import CONFIRMED, Joined, join, own_files
from pygraph_lint.trace.sources import find

_VERSION = re.compile(r"\d+\.\d+")


def trace(given: Trace) -> int:
    """Run the command. The exit code is the program's where one is run, else 1 where something
    happened that is to be fixed. Raises TraceError for a trace that cannot be used.
    """
    if given.compare:
        before, after = (read_all([Path(path)])[0] for path in given.compare)
        write(compare.compare(before, after), given.output_file)
        return 0
    if given.join:
        return 1 if _join([Path(path) for path in given.join], given).places else 0
    if not given.program:
        raise SettingsError("name a program to run, or traces with --join; see `trace --help`")
    options = [*(["--coverage"] if given.coverage else []), *(["-m"] if given.module else [])]
    code, recorded = record(
        given.python or sys.executable, [*options, *given.program], given.trace_file
    )
    if recorded is None:
        if code != 2:  # then the recorder has said what is wrong
            print(f"error: the program left no trace in {given.trace_file}", file=sys.stderr)
        return code or 2
    try:
        _join([recorded], given)
    except NothingRecorded as error:
        print(error, file=sys.stderr)
        return code
    except TraceError as error:
        ended = f" The program ended with exit code {code}." if code else ""
        print(f"error: {error}.{ended}", file=sys.stderr)
        return code or 2
    return code


def _join(paths: Sequence[Path], given: Trace) -> Joined:
    """Join, report, and fix where that is wanted."""
    traces = read_all(paths)
    sources = find(traces)
    rules = rules_here()
    version = _VERSION.match(str(traces[0].run.get("torch")))
    settings = {"target_torch": version[0]} if version else {}
    runner = fixing.ChosenFixes(rules, settings, cache_folder=default_folder())
    files = own_files(sources)
    joined = join(traces, sources, runner.offer_fixes(runner.check(files)))
    if given.output_format == "text":
        write(text.render(joined, rules), given.output_file)
    elif given.output_format == "chrome":
        write(chrome.render(joined), given.output_file)
    else:
        render = {"json": as_json, "sarif": sarif, "html": html}[given.output_format].render
        write(render(joined, rules), given.output_file)
    if given.report_misses is not None:
        write(as_json.misses(joined), given.report_misses)
    if given.fix:
        _fix(runner, files, joined, given)
    return joined


def _fix(runner: fixing.ChosenFixes, files: Sequence[Path], joined: Joined, given: Trace) -> None:
    """Fix, and say on stderr what was done."""
    made = fixing.fix(runner, files, joined, given.unsafe_fixes)
    for confirmed, finding, done in made:
        place = f"{shown_path(finding.filename)}:{finding.location.row}"
        why = "confirmed" if confirmed else "not confirmed"
        if done.applicability == "unsafe":
            why += f"; unsafe: {done.reason}"
        print(f"fixed {place}: {finding.code} {done.message} ({why})", file=sys.stderr)
    rest = "; trace again to see what is left" if made else ""
    more = sum(fixable(one.finding) == UNSAFE for one in joined.judged if one.status == CONFIRMED)
    also = f"; {more} more with --unsafe-fixes" if more and not given.unsafe_fixes else ""
    print(f"Fixed {count(len(made), 'finding')}{rest}{also}.", file=sys.stderr)


# -- the recorder


_INSTALLED = "import importlib.util as u, sys; sys.exit(u.find_spec('pygraph_rt') is None)"


def record(python: str, program: Sequence[str], output: Path) -> tuple[int, Path | None]:
    """Run and trace a program: its exit code, and the trace that it left, if any: under torchrun
    its name has the rank.

    ``program`` may begin with options of the recorder.

    Raises TraceError where the interpreter or the recorder is not there.
    """
    try:
        there = subprocess.run([python, "-c", _INSTALLED], capture_output=True, check=False)
    except OSError as error:
        raise TraceError(f"{python}: cannot be run: {error.strerror or error}") from None
    if there.returncode:
        raise TraceError(
            f"{python} has no pygraph_rt, which records traces: install it there "
            "(`pip install ./packaging/rt` in a clone of pygraph) or name another "
            "interpreter with --python"
        )
    trace = _of_this_rank(output)
    before = _state(trace)
    command = [python, "-m", "pygraph_rt.trace", "--trace-file", str(output), *program]
    process = subprocess.Popen(command)
    # A program that is told to end writes its trace before.
    previous = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        code = _wait(process)
    finally:
        signal.signal(signal.SIGTERM, previous)
    left = _state(trace) not in (None, before)
    return (128 - code if code < 0 else code), trace if left else None


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Wait for a program's end. It gets Ctrl-C, too, and writes its trace before it ends."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return process.wait()


def _of_this_rank(path: Path) -> Path:
    """The file that the recorder of this process writes."""
    rank = os.environ.get("RANK", "")
    if rank.isdigit() and "{rank}" not in path.name:
        return path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
    return path.with_name(path.name.replace("{rank}", rank or "0"))


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns
