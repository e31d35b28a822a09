"""Programs under `python -m pygraph_rt.trace`, in processes forked from one that has torch.

Each saves the seconds that importing it takes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SECONDS = 120
# Each line of the standard input asks for a process. That one leaves the loop and becomes the
# program: it ends as an interpreter does, with exit handlers.
_PARENT = """
import gc, json, os, runpy, signal, sys
import torch, torch._dynamo
gc.freeze()  # what is imported here is not looked through again when a program ends
for line in sys.stdin:
    asked = json.loads(line)
    if os.fork() == 0:
        break
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    sys.exit()
signal.alarm(asked["seconds"])
os.chdir(asked["folder"])
os.environ.update(asked["environment"])
for number, name in enumerate((os.devnull, "stdout", "stderr")):
    os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o600), number)
sys.argv, sys.path[0] = ["-m", *asked["arguments"]], asked["folder"]
runpy.run_module("pygraph_rt.trace", run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Done:
    """How a program ended (a signal's number is negative), and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


class Parent:
    """The process that has imported torch. `close` ends it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PARENT],
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def trace(self, folder: Path, *arguments: str, **environment: str) -> Done:
        """Run `python -m pygraph_rt.trace ARGUMENTS` in a folder."""
        asked = {"folder": str(folder), "arguments": arguments, "environment": environment}
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({**asked, "seconds": _SECONDS}) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code != -signal.SIGALRM, "it did not end in time"
        written = [(folder / name).read_text() for name in ("stdout", "stderr")]
        return Done(code, *written)

    def close(self) -> None:
        """End it."""
        self._process.communicate("")
