"""Freeing graphs: after their last launch, in order, and never in the middle of somebody's
capture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import DriverError

# An executable graph, the graph it was made from, and what the kernels need to stay loaded.
Handles = tuple[int, int, Any]


class Disposal:
    """Handles waiting to be freed.

    `idle` waits until the GPU has finished; `capturing` says whether this thread may not do that
    now. An executable graph goes first, then the graph that its nodes are named in, then what its
    kernels needed to stay loaded.
    """

    def __init__(
        self, driver: Driver, idle: Callable[[], None], capturing: Callable[[], bool]
    ) -> None:
        self._driver = driver
        self._idle = idle
        self._capturing = capturing
        # Reentrant: the collector may free a region's graphs in the middle of it.
        self._lock = threading.RLock()
        self._waiting: list[Handles] = []

    def add(self, handles: Handles) -> None:
        """Queue handles; safe anywhere, also in a finalizer."""
        self._waiting.append(handles)

    def drain(self) -> int:
        """Free what is queued, unless a capture is under way; how many graphs were freed."""
        if not self._waiting or self._capturing():
            return 0
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return 0
        self._idle()
        for executable, graph, needed in waiting:
            try:
                self._driver.destroy_exec(executable)
                self._driver.destroy_graph(graph)
            except DriverError:  # the context is broken or gone: nothing is left to free
                pass
            del needed
        return len(waiting)
