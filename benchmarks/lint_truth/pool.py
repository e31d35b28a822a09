"""Run jobs in forked children: a crash or a hang costs one job, imports are paid once."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

Report = Callable[[dict[str, Any]], None]
Job = tuple[str, Callable[[Report], None]]


@dataclass
class _Child:
    label: str
    pid: int
    pipe: int
    deadline: float
    data: bytearray = field(default_factory=bytearray)
    late: bool = False


def _start(job: Job, seconds: float) -> _Child:
    label, function = job
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return _Child(label, pid, reading, time.monotonic() + seconds)
    os.close(reading)
    os.setpgid(0, 0)
    status = 1
    try:
        with os.fdopen(writing, "w") as stream:

            def report(record: dict[str, Any]) -> None:
                stream.write(json.dumps(record) + "\n")
                stream.flush()

            function(report)
        status = 0
    finally:
        os._exit(status)


def _finish(child: _Child) -> list[dict[str, Any]]:
    """The child's records, plus one that says so if it did not end well."""
    os.close(child.pipe)
    _, status = os.waitpid(child.pid, 0)
    records = []
    for line in bytes(child.data).decode(errors="replace").splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # a line cut short by the limit
            records.append(json.loads(line))
    if child.late:
        records.append({"label": child.label, "error": "ran out of time"})
    elif status:
        records.append({"label": child.label, "error": f"ended with status {status}"})
    return records


def run_all(jobs: Sequence[Job], workers: int, seconds: float) -> Iterator[list[dict[str, Any]]]:
    """Run `jobs`, at most `workers` at once, each for at most `seconds`; yield their records."""
    waiting = list(reversed(jobs))
    running: list[_Child] = []
    while waiting or running:
        while waiting and len(running) < workers:
            running.append(_start(waiting.pop(), seconds))
        ready, _, _ = select.select([child.pipe for child in running], [], [], 0.5)
        for child in list(running):
            if child.pipe in ready:
                chunk = os.read(child.pipe, 1 << 20)
                if chunk:
                    child.data += chunk
                    continue
                running.remove(child)
                yield _finish(child)
            elif time.monotonic() > child.deadline:
                child.late = True
                running.remove(child)
                os.killpg(child.pid, signal.SIGKILL)
                yield _finish(child)
