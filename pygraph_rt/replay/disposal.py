"""Freeing graphs: after their last launch, in order, and never in the middle of somebody's
capture.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pygraph_rt.cuda.driver import Driver
from pygraph_rt.errors import DriverError


@dataclass(frozen=True)
class Handles:
    """Executable graphs, the graph they were instantiated from, what the kernels `need` to stay
    loaded, and the streams of their launches (none: never launched).
    """

    executables: tuple[int, ...]
    graph: int
    need: Any
    streams: frozenset[int]


class Disposal:
    """Handles waiting to be freed. `capturing` says whether this thread is capturing.

    Executable graphs go first, then the graph that their nodes are named in, then what their
    kernels needed to stay loaded. Only streams that a graph was launched on are waited for: to wait
    for the device would invalidate another thread's capture.
    """

    def __init__(self, driver: Driver, capturing: Callable[[], bool]) -> None:
        self._driver = driver
        self._capturing = capturing
        # Reentrant: the collector may free a region's graphs in the middle of it.
        self._lock = threading.RLock()
        self._waiting: list[Handles] = []

    def add(self, handles: Handles) -> None:
        """Queue handles; safe anywhere, also in a finalizer."""
        self._waiting.append(handles)

    def drain(self) -> int:
        """Free what is queued, unless this thread is capturing; how many graphs were freed. What
        was launched on a stream that somebody captures now is left for the next time.
        """
        if not self._waiting or self._capturing():
            return 0
        with self._lock:
            waiting, self._waiting = self._waiting, []
        freed = 0
        ended: dict[int, bool] = {}
        for handles in waiting:
            for stream in handles.streams - ended.keys():
                ended[stream] = self._ended(stream)
            if all(ended[stream] for stream in handles.streams):
                self._free(handles)
                freed += 1
            else:
                self._waiting.append(handles)
        return freed

    def _ended(self, stream: int) -> bool:
        try:
            return self._driver.wait_for(stream)
        except DriverError:  # the context is broken or gone: nothing runs any more
            return True

    def _free(self, handles: Handles) -> None:
        try:
            for executable in handles.executables:
                self._driver.destroy_exec(executable)
            self._driver.destroy_graph(handles.graph)
        except DriverError:  # the context is broken or gone: nothing is left to free
            pass
