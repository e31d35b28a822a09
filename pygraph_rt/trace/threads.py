"""Whether other threads of Python may use the GPU meanwhile."""

from __future__ import annotations

import threading
from _thread import _count as started_threads
from typing import Any

from pygraph_rt.trace.torch_hooks import compiling_threads


class ThreadsBeside:
    """Called: whether a thread runs beside the one that asks; threads of torch's compiler and of
    progress bars, which never wait for the GPU, aside.

    Threads are looked at again only when there are others than before.
    """

    def __init__(self) -> None:
        self._seen: list[threading.Thread] = []
        self._found = False

    def __call__(self) -> bool:
        started = started_threads()
        if not started:
            return False
        now = threading.enumerate()
        if now != self._seen:
            mine = sum(not _never_waits(thread) for thread in now)
            self._seen, self._found = now, mine > 1
        # One more has started than `threading` knows of: it may do anything.
        return self._found or started >= len(now)


def _never_waits(thread: threading.Thread) -> bool:
    """Whether this thread reads answers of Inductor's compiling processes, compiles itself, or
    belongs to tqdm.
    """
    target: Any = getattr(thread, "_target", None)
    of = (type(thread).__module__, str(getattr(target, "__module__", None)))
    return any(name.startswith(("tqdm.", "torch._inductor.")) for name in of) or (
        thread in compiling_threads()
    )
