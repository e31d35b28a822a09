"""Runs `python -m pygraph_rt.trace` in the interpreter that has torch."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from pygraph_lint.trace.document import TraceError

_INSTALLED = "import importlib.util as u, sys; sys.exit(u.find_spec('pygraph_rt') is None)"


def record(python: str, program: Sequence[str], output: Path) -> tuple[int, bool]:
    """Run and trace a program: its exit code, and whether it left a trace.

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
    before = _state(output)
    command = [python, "-m", "pygraph_rt.trace", "--trace-file", str(output), *program]
    process = subprocess.Popen(command)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            # The program got it, too, and writes its trace before it ends.
            continue
    return (128 - code if code < 0 else code), _state(output) not in (None, before)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_mtime_ns
