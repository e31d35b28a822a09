"""The kinds of calls that a region has seen, and which of them are worth a graph."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch

from pygraph_rt.capture import output_plan
from pygraph_rt.capture.record import Observed
from pygraph_rt.replay.replay import Replay

# Kinds of calls that are remembered without a graph, for each graph that a region may hold.
_WATCHED = 8
# Ordinary calls before a kind of call takes another one's graph away, for the first time.
_WORTH_A_SWAP = 4
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
        self._lock = threading.Lock()
        self._graphs: dict[int, weakref.WeakSet[Replay]] = {}

    def add(self, device: int, replay: Replay) -> None:
        """Count a graph, for as long as its handles live."""
        with self._lock:
            self._graphs.setdefault(device, weakref.WeakSet()).add(replay)

    def room(self, device: int, share: float) -> int:
        """Bytes that are left when graphs may take a share of the GPU's memory; below zero when
        they have more than that.
        """
        with self._lock:
            nodes = sum(r.nodes for r in self._graphs.get(device, ()) if not r.closed)
        return int(share * self._capacity(device)) - nodes * BYTES_PER_NODE


class Patience:
    """Whether it is worth a look what kind a call is: programs with ever new kinds of calls are not
    to pay for that on each of them. `calls`: how many go without a look.
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


@dataclass
class Variant:
    """What is known of calls that share a key: integers, shapes, alignments, global switches.

    calls: ordinary ones, since the last graph. looked: the number of the last look at it. served:
    launches of its graph up to the last swap. refused: why it gets no graph, although the region
    may have others.
    """

    calls: int = 0
    looked: int = 0
    threads: set[int] = field(default_factory=set)
    addresses: dict[int, int] = field(default_factory=dict)
    plan: output_plan.OutputPlan | None = None
    requests: list[tuple[output_plan.Sizes, output_plan.Sizes, torch.dtype]] = field(
        default_factory=list
    )
    drawn: output_plan.Draws = field(default_factory=output_plan.Draws)
    served: int = 0
    refused: str = ""
    replay: Replay | None = None

    def observed(self, args: Sequence[Any]) -> Observed:
        """What the last ordinary call showed, for a capture on `args`."""
        assert self.plan is not None
        stays = frozenset(i for i, a in self.addresses.items() if args[i].data_ptr() == a)
        return Observed(self.plan, self.requests, self.drawn, stays)


class Variants:
    """Variants by key.

    At most `graphs` of them hold one, and all of the process's together a share of the GPU's memory
    (see `GraphMemory`). When there is no room, a kind of call has to come up often
    before it takes the place of the one that was served least since the last time, and twice as
    often each time that has happened: programs with more kinds of calls than graphs do not capture
    for ever.
    """

    def __init__(self, graphs: int) -> None:
        self._graphs = graphs
        self._items: dict[Hashable, Variant] = {}
        self._looks = 0
        self._swaps = 0

    def __iter__(self) -> Iterator[Variant]:
        return iter(list(self._items.values()))

    def find(self, key: Hashable) -> Variant:
        """The variant of a key, new when it was never seen or is forgotten; it is now the most
        recently used one.
        """
        found = self._items.get(key)
        if found is None:
            self._forget()
            found = self._items[key] = Variant()
        self._looks += 1
        found.looked = self._looks
        return found

    def _forget(self) -> None:
        watched = [(v.looked, key) for key, v in self._items.items() if v.replay is None]
        if len(watched) >= _WATCHED * self._graphs:
            _, oldest = min(watched, key=itemgetter(0))
            del self._items[oldest]

    def full(self) -> bool:
        """Whether there are as many graphs as there may be."""
        return len(self._nodes()) >= self._graphs

    def _nodes(self) -> list[int]:
        return [v.replay.nodes for v in self._items.values() if v.replay is not None]

    def bytes(self) -> int:
        """GPU memory that the driver keeps for the graphs."""
        return sum(self._nodes()) * BYTES_PER_NODE

    def next_bytes(self) -> int:
        """About what one more graph would take: as much as the largest one; 0 when there is none
        to tell by.
        """
        return max(self._nodes(), default=0) * BYTES_PER_NODE

    def wanted(self) -> int:
        """How many ordinary calls a variant needs before it may take another one's graph away."""
        return int(_WORTH_A_SWAP << min(self._swaps, 32))

    def swap(self) -> Variant:
        """The variant whose graph has to go, with a new beginning for it."""
        self._swaps += 1
        idle: Variant | None = None
        fewest = 0
        for variant in self._items.values():
            if variant.replay is None:
                continue
            served = variant.replay.launches - variant.served
            variant.served = variant.replay.launches
            if idle is None or served < fewest:
                idle, fewest = variant, served
        assert idle is not None
        idle.calls = idle.served = 0
        return idle

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()
