"""An exception at every opcode of a call: what Ctrl-C may do, and more often than it can."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[2] / "pygraph_rt"


class Interrupt(BaseException):
    """Raised as a signal handler would."""


class _Tracer:
    """Raises at one of the opcodes that run in the given folders."""

    def __init__(self, folders: tuple[str, ...], at: int) -> None:
        self._prefixes = tuple(str(ROOT / folder) for folder in folders)
        self._left = at
        self.raised = False

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._prefixes):
            return None
        frame.f_trace_opcodes = True
        return self._at_opcode

    def _at_opcode(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode" and not self.raised:
            self._left -= 1
            if not self._left:
                self.raised = True
                raise Interrupt
        return self._at_opcode


def at_every_opcode(
    call: Callable[[], Any], *folders: str, step: int = 1, first: int = 1
) -> Iterator[int]:
    """Make a call again and again, interrupted at another of its opcodes each time, until none is
    left. Yields after each, with the number of the opcode.
    """
    at = first
    while True:
        tracer = _Tracer(folders, at)
        before = sys.gettrace()
        gc.disable()  # what a finalizer raises, nobody sees
        sys.settrace(tracer)
        try:
            call()
        except Interrupt:
            pass
        finally:
            sys.settrace(before)
            gc.enable()
        if not tracer.raised:
            return
        yield at
        at += step


def is_free(lock: Any) -> bool:
    """Whether another thread can take a lock."""
    found: list[bool] = []

    def work() -> None:
        found.append(lock.acquire(blocking=False))
        if found[0]:
            lock.release()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]
