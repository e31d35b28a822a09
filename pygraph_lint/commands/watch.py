"""``check --watch``: check again whenever a file changes."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import NoReturn

from pygraph_lint.commands.arguments import Check
from pygraph_lint.commands.check import STDIN, check_once, make_runner
from pygraph_lint.commands.progress import Progress
from pygraph_lint.errors import SettingsError
from pygraph_lint.files.paths import stamps

INTERRUPTED = 130
INTERVAL = 0.5  # seconds between two looks at the files
_CLEAR = "\x1b[2J\x1b[H"

State = dict[Path, tuple[int, int]]


def watch(given: Check) -> int:
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
