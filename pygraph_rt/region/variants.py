"""The kinds of calls that a region has seen, which of them are worth a graph, and which serve."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import torch

from pygraph_rt.capture.observe import Observed
from pygraph_rt.errors import Unprovable
from pygraph_rt.inductor.runner_inlining import picker
from pygraph_rt.plan.memory_blocks import alignment_class
from pygraph_rt.region.limits import BYTES_PER_NODE, BackOff
from pygraph_rt.replay.replay import Replay

# Kinds of calls that are remembered without a graph, for each graph that a region may hold.
_WATCHED = 8
# Calls without graph before a kind of call takes another one's graph away, for the first time.
_WORTH_A_SWAP = 4


def key_of(args: Sequence[Any], state: Hashable, numbers: Collection[int]) -> Hashable:
    """What kind of call it is: global switches, shapes, alignments, numbers and generators.
    `numbers` are arguments that hold a seed or offset, whose values may differ. Raises Unprovable
    for an argument that no graph can follow.
    """
    parts: list[Hashable] = [state]
    for i, value in enumerate(args):
        if i in numbers:
            parts.append("number")
        elif isinstance(value, torch.Tensor):
            parts.append((value.shape, value.stride(), alignment_class(value.data_ptr())))
        elif isinstance(value, float):
            # 0.0 and -0.0 are equal, and a NaN is not equal to itself.
            parts.append((float, "nan" if math.isnan(value) else value.hex()))
        elif value is None or isinstance(value, (int, bool)):
            parts.append((type(value), value))
        elif isinstance(value, torch.Generator):
            parts.append(value)
        else:
            raise Unprovable(
                f"it takes a {type(value).__name__}, whose state a graph cannot follow; keep it "
                "out of the compiled region"
            )
    return tuple(parts)


@dataclass
class Variant:
    """What is known of calls that share a key.

    calls: those without a graph, since the last graph. looked: the number of the last look at it.
    threads: that were seen. observed: the last observed call. served: launches of its graph up to
    the last swap. refused: why it gets no graph.
    """

    calls: int = 0
    looked: int = 0
    threads: set[int] = field(default_factory=set)
    observed: Observed | None = None
    served: int = 0
    refused: str = ""
    replay: Replay | None = None


@dataclass(eq=False)
class Variants:
    """Variants by key.

    At most `graphs` of them hold one, and all of the process's together a share of the GPU's memory
    (see `GraphMemory`). When there is no room, a kind of call has to come up often
    before it takes the place of the one that was served least since the last time, and twice as
    often each time that has happened: programs with more kinds of calls than graphs do not capture
    for ever. back_off: of look-ups that no graph comes of.
    """

    graphs: int
    back_off: BackOff = field(default_factory=BackOff)
    _items: dict[Hashable, Variant] = field(default_factory=dict)
    _looks: int = 0
    _swaps: int = 0

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

    def of(self, replay: Replay) -> Variant | None:
        """The variant that a graph is of; None: it is there no longer."""
        return next((v for v in self if v.replay is replay), None)

    def _forget(self) -> None:
        watched = [(v.looked, key) for key, v in self._items.items() if v.replay is None]
        if len(watched) >= _WATCHED * self.graphs:
            _, oldest = min(watched, key=itemgetter(0))
            del self._items[oldest]

    def replays(self) -> list[Replay]:
        """All graphs."""
        return [v.replay for v in list(self._items.values()) if v.replay is not None]

    def full(self) -> bool:
        """Whether there are as many graphs as there may be."""
        return len(self.replays()) >= self.graphs

    def bytes(self) -> int:
        """GPU memory that the driver keeps for the graphs."""
        return sum(r.held_nodes for r in self.replays()) * BYTES_PER_NODE

    def next_bytes(self) -> int:
        """About what one more graph would take: as much as the largest one; 0 when there is none
        to tell by.
        """
        return max((r.nodes for r in self.replays()), default=0) * BYTES_PER_NODE

    def wanted(self) -> int:
        """How many calls without graph a variant needs before it may take another one's graph
        away.
        """
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


def _integers(replay: Replay) -> tuple[Any, ...]:
    return tuple(value for _, value in replay.plan.inputs.values)


class Serving:
    """The graph that the next call tries first, and how graphs of other integers are found.

    Shapes that alternate need not be looked up by all that makes a key. Only the graph that was
    served last keeps memory for its next call. integers_of: what takes a call's integers out of its
    arguments; None: it has none.
    """

    def __init__(self) -> None:
        self.current: Replay | None = None
        self.latest: Replay | None = None
        self.integers_of: Callable[[list[Any]], tuple[Any, ...]] | None = None
        self._by_integers: dict[tuple[Any, ...], Replay] = {}
        self._launches = self._patched = 0

    def pick(self, replay: Replay, args: list[Any]) -> Replay:
        """The graph for a call's integers, if there is one; else `replay`."""
        assert self.integers_of is not None
        replay = self._by_integers.get(self.integers_of(args), replay)
        if replay is not self.latest:
            self._keep(replay)
        return replay

    def activate(self, replay: Replay) -> None:
        """Try this graph first."""
        values = replay.plan.inputs.values
        self.integers_of = picker([index for index, _ in values]) if values else None
        self.current = self._by_integers[_integers(replay)] = replay
        if replay is not self.latest:
            self._keep(replay)

    def _keep(self, replay: Replay | None) -> None:
        latest, self.latest = self.latest, replay
        if latest is not None:
            latest.let_go()

    def pause(self) -> None:
        """Try no graph until one is activated."""
        self.current = None
        self._keep(None)

    def forget(self, replay: Replay) -> None:
        """A graph goes; its counts stay."""
        self._launches += replay.launches
        self._patched += replay.patched
        if self.current is replay:
            self.current = None
        if self.latest is replay:
            self.latest = None
        if self._by_integers.get(_integers(replay)) is replay:
            del self._by_integers[_integers(replay)]

    def counts(self, replays: Sequence[Replay]) -> tuple[int, int]:
        """(launches, node updates) of all graphs that are or were."""
        launches = self._launches + sum(r.launches for r in replays)
        return launches, self._patched + sum(r.patched for r in replays)
