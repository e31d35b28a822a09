"""What bounds the number of graphs, and of looks that may lead to one."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch

from pygraph_rt.interrupts import RLock, release
from pygraph_rt.replay.replay import Replay

# To look what kind a call is, and to watch it, costs as much as a small region. After so many looks
# in a row that no graph came of, as many calls go without one, then twice as many, up to the most.
_LOOKS, _MOST_CALLS = 32, 4096
# Driver memory on the GPU for each node of an executable graph, in bytes. The driver does not tell
# and hands it out in larger pieces: 2.0 to 3.7 kB were measured (`make bench-graph-memory`).
BYTES_PER_NODE = 4 << 10


def device_bytes(device: int) -> int:
    """Memory of a GPU."""
    return int(torch.cuda.get_device_properties(device).total_memory)


class GraphMemory:
    """GPU memory that the driver keeps for the process's executable graphs, by GPU.

    A graph's arena is given back after every launch; this is what it costs between calls.
    """

    def __init__(self, capacity: Callable[[int], int] = device_bytes) -> None:
        self._capacity = capacity
        self._lock = RLock()  # also taken in served calls, which a signal may interrupt
        self._graphs: dict[int, weakref.WeakSet[Replay]] = {}

    def add(self, device: int, replay: Replay) -> None:
        """Count a graph, for as long as its handles live."""
        with self._lock:
            self._graphs.setdefault(device, weakref.WeakSet()).add(replay)

    def room(self, device: int, share: float) -> int:
        """Bytes that are left when graphs may take a share of the GPU's memory; below zero when
        they have more than that.
        """
        try:
            with self._lock:
                nodes = sum(r.held_nodes for r in self._graphs.get(device, ()) if not r.closed)
        except BaseException:
            release(self._lock)
            raise
        return int(share * self._capacity(device)) - nodes * BYTES_PER_NODE

    def nodes(self, device: int, share: float) -> int:
        """For how many more nodes there is room."""
        return self.room(device, share) // BYTES_PER_NODE


class BackOff:
    """Exponential back-off of key look-ups, for programs with ever new kinds of calls. calls: how
    many go without a look.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._next = self._left = _LOOKS

    def lose(self) -> None:
        """A look was for nothing."""
        self._left -= 1
        if not self._left:
            self.calls, self._left = self._next, _LOOKS
            self._next = min(2 * self._next, _MOST_CALLS)

    def renew(self) -> None:
        """A graph was made, or served."""
        self._next = self._left = _LOOKS
