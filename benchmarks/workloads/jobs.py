"""Child processes: started with a time limit, waited for, and their ends turned into results."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from benchmarks.workloads import overlay, worker


@dataclasses.dataclass(frozen=True)
class Task:
    """What a child is to do. ``cache`` is its compiler cache folder, ``arguments`` go to the worker
    as they are, ``sources`` is a folder of fixed modules to use, ``gpu`` the number of the only GPU
    that the child is to see (None: all), ``tree`` the checkout whose code runs (None: this one).
    """

    kind: str
    workload: str
    variants: tuple[str, ...]
    cache: Path
    arguments: tuple[str, ...]
    sources: Path | None = None
    gpu: int | None = None
    tree: Path | None = None

    @property
    def label(self) -> str:
        """For progress lines and file names."""
        return f"{self.kind} {self.workload} {'+'.join(self.variants)}"


class Child:
    """A running worker in a process group of its own."""

    def __init__(self, task: Task, folder: Path, compile_threads: int, limit_s: float) -> None:
        self.task = task
        stem = task.label.replace(" ", "-").replace("+", "-")
        self.result_path = folder / f"{stem}.json"
        self.log_path = folder / f"{stem}.log"
        self.result_path.unlink(missing_ok=True)
        self.started = time.monotonic()
        self.deadline = self.started + limit_s
        self.ready = threading.Event()
        self.timed_out = False
        self.beside = 0
        self._log = self.log_path.open("w")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", *_program(task), task.kind),
                *("--workload", task.workload, "--variants", ",".join(task.variants)),
                *("--result", str(self.result_path), *task.arguments),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
            cwd=task.tree,
            env={
                **os.environ,
                # Each process decides for itself: others may have decided side by side.
                "PYGRAPH_REMEMBER": "0",
                "TORCHINDUCTOR_CACHE_DIR": str(task.cache),
                "TORCHINDUCTOR_COMPILE_THREADS": str(compile_threads),
                "TRITON_CACHE_DIR": str(task.cache / "triton"),
                "TOKENIZERS_PARALLELISM": "false",
                "HF_HUB_OFFLINE": "1",
                **({} if task.gpu is None else {"CUDA_VISIBLE_DEVICES": str(task.gpu)}),
                **({} if task.tree is None else {"PYTHONPATH": _first_on_path(task.tree)}),
            },
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in _lines(self._process.stdout):
            if line.strip() == worker.READY:
                self.ready.set()

    def finished(self) -> bool:
        """Whether the process has ended; one past its limit is ended first."""
        if self._process.poll() is not None:
            return True
        if time.monotonic() > self.deadline:
            self.timed_out = True
            self.stop()
            return True
        return False

    def go(self, limit_s: float) -> None:
        """Lets a ready worker start timing, with a new time limit."""
        self.deadline = time.monotonic() + limit_s
        if self._process.stdin is not None:
            try:
                self._process.stdin.write("go\n")
                self._process.stdin.flush()
            except BrokenPipeError:
                pass

    def stop(self) -> None:
        """Ends the process and those it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def outcome(self) -> dict[str, Any]:
        """The result file's content; ``error`` and ``failed_step`` are set if the process died or
        was stopped.
        """
        self._process.wait()
        # Compile workers outlive a process that leaves without cleaning up.
        self.stop()
        self._reader.join(timeout=5)
        self._log.close()
        try:
            content: dict[str, Any] = json.loads(self.result_path.read_text())
        except (OSError, ValueError):
            content = {"step": "starting"}
        content["seconds"] = round(time.monotonic() - self.started, 1)
        if content["step"] == "done" or "error" in content:
            return content
        content["failed_step"] = content["step"]
        content["error"] = self._reason()
        return content

    def _reason(self) -> str:
        if self.timed_out:
            return "stopped at the time limit"
        code = self._process.returncode
        name = f"exit status {code}"
        if code < 0:
            name = f"killed by {signal.Signals(-code).name}"
        return f"process died ({name}): {_tail(self.log_path)}"


def _first_on_path(tree: Path) -> str:
    return os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))


def _program(task: Task) -> list[str]:
    if task.sources is None:
        return [worker.__name__]
    return [overlay.__name__, str(task.sources)]


def _lines(stream: IO[str] | None) -> IO[str] | list[str]:
    return stream if stream is not None else []


def _tail(path: Path, limit: int = 300) -> str:
    """The last informative line of a log."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith(("^", "~"))]
    return lines[-1][:limit] if lines else "no output"


def wait_for_all(waiting: list[Task], started: Any, at_once: int, done: Any) -> None:
    """Runs tasks, at most ``at_once`` at a time. ``started(task)`` makes a child or returns None to
    leave the rest.
    """
    running: list[Child] = []
    waiting = list(waiting)
    while waiting or running:
        while waiting and len(running) < at_once:
            child = started(waiting.pop(0))
            if child is None:
                waiting.clear()
                break
            running.append(child)
        for child in running:
            child.beside = max(child.beside, len(running) - 1)
        for child in [child for child in running if child.finished()]:
            running.remove(child)
            done(child)
        time.sleep(0.05)
