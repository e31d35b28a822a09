"""Runs a program as Python would, and traces it: `python -m pygraph_rt.trace`."""

from __future__ import annotations

import argparse
import atexit
import builtins
import importlib.util
import os
import runpy
import signal
import sys
import threading
import types
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from pygraph_rt.trace.session import Trace, first_paragraph, say

_OWN = str(Path(__file__).parent)
_RUNPY = ("<frozen runpy>", runpy.__file__)


def parser() -> argparse.ArgumentParser:
    """The command line; everything behind the program is the program's."""
    made = argparse.ArgumentParser(
        prog="python -m pygraph_rt.trace",
        description="Run a program, and write what torch.compile did with it to a file.",
    )
    made.add_argument(
        "--trace-file",
        metavar="FILE",
        type=Path,
        default=Path("trace.json"),
        help="default: trace.json; under torchrun trace.rank0.json and so on",
    )
    made.add_argument(
        "--coverage",
        action="store_true",
        help="note which lines ran on Python 3.11 and earlier too, which is slower",
    )
    made.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module")
    made.add_argument("program", metavar="PROGRAM", help="a file, or with -m a module")
    made.add_argument("arguments", metavar="ARGUMENT", nargs=argparse.REMAINDER, help="its own")
    return made


def output_of(path: Path) -> Path:
    """The file of this process: ranks do not overwrite each other's."""
    rank = os.environ.get("RANK", "")
    if rank.isdigit() and "{rank}" not in path.name:
        return path.with_name(f"{path.stem}.rank{rank}{path.suffix}")
    return path.with_name(path.name.replace("{rank}", rank or "0"))


def run_script(path: str) -> None:
    """Run a file as `__main__`, so that pickling and new processes find it under that name."""
    if Path(path).is_dir() or zipfile.is_zipfile(path):
        runpy.run_path(path, run_name="__main__")
        return
    file = os.path.abspath(path)
    code = compile(Path(file).read_bytes(), file, "exec", dont_inherit=True)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=file, __builtins__=builtins, __spec__=None, __cached__=None)
    sys.modules["__main__"] = module
    sys.path[0] = str(Path(file).resolve().parent)  # as Python does for a link
    exec(code, module.__dict__)


def exit_of(error: BaseException) -> dict[str, Any]:
    """How a program ended that this exception left."""
    if isinstance(error, SystemExit):
        given = error.code
        code = given if isinstance(given, int) else 0 if given is None else 1
        return {"kind": "exited", "code": code & 0xFF, "error": None}
    if isinstance(error, KeyboardInterrupt):
        return {"kind": "interrupted", "code": 128 + signal.SIGINT, "error": None}
    return {"kind": "raised", "code": 1, "error": first_paragraph(error)}


class Ending:
    """Ends a trace exactly once, in the process that began it, however the program ends."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._process = os.getpid()
        self._ended = False
        self._exit = os._exit
        self._hook = sys.excepthook

    def watch(self) -> None:
        """Also see `os._exit`, a signal that ends the process, and shorten tracebacks."""
        os._exit = self._exit_at_once
        sys.excepthook = self._show
        if threading.current_thread() is threading.main_thread():
            numbers = {signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)}
            ours = {n for n in numbers if signal.getsignal(n) is signal.SIG_DFL}
            for number in ours:
                signal.signal(number, self._on_signal)
            _leave_to_children(ours)

    def end(self, how: dict[str, Any]) -> None:
        """Write the trace."""
        if self._ended or os.getpid() != self._process:
            return
        self._ended = True
        os._exit = self._exit
        self._trace.exit = how
        try:
            self._trace.stop()
        except OSError as error:
            say(f"{self._trace.path} cannot be written: {error.strerror or error}")
        else:
            say(self._trace.summary())

    def _exit_at_once(self, status: int) -> NoReturn:
        self.end({"kind": "exited", "code": status & 0xFF, "error": None})
        self._exit(status)

    def _on_signal(self, number: int, frame: Any) -> None:
        self.end({"kind": "signal", "code": 128 + number, "error": signal.strsignal(number)})
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _show(
        self,
        kind: type[BaseException],
        error: BaseException,
        traceback: TracebackType | None,
    ) -> None:
        """Show an uncaught exception without the frames that only run the program."""
        while traceback is not None and _runs_programs(traceback):
            traceback = traceback.tb_next
        self._hook(kind, error.with_traceback(traceback), traceback)


def _leave_to_children(numbers: set[int]) -> None:
    """Have signals end forked children at once, as without a trace. They wait while a fork is made,
    so that none is lost in between.
    """
    masks: dict[int, set[int]] = {}  # by thread

    def before() -> None:
        masks[threading.get_ident()] = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)

    def in_parent() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, masks.pop(threading.get_ident()))

    def in_child() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        in_parent()

    os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)


def _runs_programs(traceback: TracebackType) -> bool:
    file = traceback.tb_frame.f_code.co_filename
    return file.startswith(_OWN) or file in _RUNPY


def _run(start: Callable[[], None], ending: Ending) -> None:
    try:
        start()
    except BaseException as error:
        _end_after_threads(ending, exit_of(error))
        raise
    _end_after_threads(ending, {"kind": "finished", "code": 0, "error": None})


def _end_after_threads(ending: Ending, how: dict[str, Any]) -> None:
    """Threads that keep Python alive belong to the program; exit handlers run after them."""
    others = [t for t in threading.enumerate() if t is not threading.current_thread()]
    if all(thread.daemon for thread in others):
        ending.end(how)
    else:
        atexit.register(ending.end, how)


def main(arguments: list[str]) -> int:
    """Run a program; its exit status, 2 when there is no such program."""
    given = parser().parse_args(arguments[: (end := _own_part(arguments))])
    given.arguments = arguments[end:]
    if not given.module and not Path(given.program).exists():
        print(f"error: {given.program} does not exist", file=sys.stderr)
        return 2
    if given.module and not _is_module(given.program):
        print(f"error: there is no module named {given.program}", file=sys.stderr)
        return 2
    sys.argv = [given.program, *given.arguments]
    trace = Trace(output_of(given.trace_file), coverage=given.coverage, command=list(sys.argv))
    ending = Ending(trace)
    trace.start()
    ending.watch()
    _run(partial(_run_module if given.module else run_script, given.program), ending)
    return 0


def _own_part(arguments: list[str]) -> int:
    """How many of the arguments are the recorder's, with the program."""
    place = 0
    while place < len(arguments) and arguments[place].startswith("-"):
        place += 2 if arguments[place] == "--trace-file" else 1
    return place + 1


def _is_module(name: str) -> bool:
    """Whether its package is there: what is in it is only known when it is imported."""
    sys.path[0] = str(Path.cwd())
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def _run_module(name: str) -> None:
    runpy.run_module(name, run_name="__main__", alter_sys=True)
