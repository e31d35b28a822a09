"""The kinds of calls that a region has seen, and which of them are worth a graph."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from . import outputs
from .capture import Observed
from .replay import Replay

# Kinds of calls that are remembered without a graph, for each graph that a region may hold.
_WATCHED = 8
# Ordinary calls before a kind of call takes another one's graph away, for the first time.
_WORTH_A_SWAP = 4


@dataclass
class Variant:
    """What is known of calls that share a key: integers, shapes, alignments, global switches.

    calls: ordinary ones, since the last graph. lend: whether a capture may put intermediates into
    memory that the call has done with. served: launches of its graph up to the last swap.
    """

    calls: int = 0
    threads: set[int] = field(default_factory=set)
    addresses: dict[int, int] = field(default_factory=dict)
    plan: outputs.OutputPlan | None = None
    requests: list[tuple[outputs.Sizes, outputs.Sizes, torch.dtype]] = field(default_factory=list)
    drawn: outputs.Draws = field(default_factory=outputs.Draws)
    lend: bool = True
    served: int = 0
    replay: Replay | None = None

    def observed(self, args: Sequence[Any]) -> Observed:
        """What the last ordinary call showed, for a capture on `args`."""
        assert self.plan is not None
        stays = frozenset(i for i, a in self.addresses.items() if args[i].data_ptr() == a)
        return Observed(self.plan, self.requests, self.drawn, stays)


class Variants:
    """Variants by key, the one that was looked up longest ago first.

    At most `graphs` of them hold one. When there is no room, a kind of call has to come up often
    before it takes the place of the one that was served least since the last time, and twice as
    often each time that has happened: programs with more kinds of calls than graphs do not capture
    for ever.
    """

    def __init__(self, graphs: int) -> None:
        self._graphs = graphs
        self._items: OrderedDict[Hashable, Variant] = OrderedDict()
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
        self._items.move_to_end(key)
        return found

    def _forget(self) -> None:
        watched = [key for key, v in self._items.items() if v.replay is None]
        if len(watched) >= _WATCHED * self._graphs:
            del self._items[watched[0]]

    def full(self) -> bool:
        """Whether there are as many graphs as there may be."""
        return sum(v.replay is not None for v in self._items.values()) >= self._graphs

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
