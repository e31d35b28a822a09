"""Runs `python -m pygraph_rt.trace` in the interpreter that has torch."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pygraph_lint.trace.document import TraceError

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
