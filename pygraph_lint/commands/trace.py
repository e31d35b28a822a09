"""``pygraph-lint trace``: what a program did, beside what its source says."""

from __future__ import annotations

import re
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
from pygraph_lint.trace.record import record
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
