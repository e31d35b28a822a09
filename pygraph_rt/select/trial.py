"""A trial: two candidates, with and without graphs, alternate on blocks of live calls.

Nothing is run for the measurement's sake: no state is changed twice, no random number drawn twice.
The score is the time from one call of a loop's first region to the next.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.select import decision
from pygraph_rt.select.decision import Block, Choice

# A graph that is new is instantiated again after its second launch.
_DROPPED, _DROPPED_AFTER_CAPTURE = 1, 3
# So many calls a block's result is waited for before the other candidate is measured: the result
# may be that it is measured next.
_MOST_WAITED = 64


@dataclass(frozen=True)
class Instruments:
    """clock: nanoseconds of the host. stamp: a recorded `torch.cuda.Event` on the current stream of
    a GPU, by its index. capturing: whether this thread captures a graph of its own, when no event
    may be recorded.
    """

    clock: Callable[[], int]
    stamp: Callable[..., Any]
    capturing: Callable[[], bool]

    def on(self, device: int) -> Instruments:
        """The same, where `stamp()` is one of this GPU."""
        return replace(self, stamp=partial(self.stamp, device))


class Measurement:
    """One block of a candidate: `drop` calls that do not count, then `calls` that do."""

    def __init__(self, candidate: str, drop: int, calls: int, instruments: Instruments) -> None:
        self.candidate = candidate
        self._drop = drop
        self._wanted = calls
        self._instruments = instruments
        self._last = 0
        self._periods: list[float] = []
        self._inside = 0.0
        self._start: Any = None
        self._end: Any = None
        self._last_call: Any = None
        self._behind = False

    def called(self, now: int) -> bool:
        """Note that the loop's first region is about to be called, at `now` (nanoseconds); whether
        the block is complete.
        """
        if self._drop > 0:
            self._drop -= 1
            return False
        if self._start is None:
            self._start = self._instruments.stamp()
            self._inside = 0.0
            self._last = self._instruments.clock()
            return False
        self._periods.append((now - self._last) / 1e6)
        self._last = now
        if len(self._periods) == self._wanted - 1:
            self._last_call = self._instruments.stamp()
        if len(self._periods) < self._wanted:
            return False
        self._behind = self._last_call is not None and not self._last_call.query()
        self._end = self._instruments.stamp()
        return True

    def ran(self, inside_ms: float) -> None:
        """Add the host time of a call of one of the group's regions."""
        if self._end is None:
            self._inside += inside_ms

    def block(self) -> Block | None:
        """The finished block; None while the GPU has not reached its end."""
        if self._start is None or self._end is None or not self._end.query():
            return None
        return Block(
            self.candidate,
            tuple(self._periods),
            self._inside / len(self._periods),
            self._start.elapsed_time(self._end),
            self._behind,
        )


def _finished(pending: deque[Measurement]) -> Iterator[Block]:
    """Take out the blocks that the GPU is done with, in order."""
    while pending and (block := pending[0].block()) is not None:
        pending.popleft()
        yield block


class Baseline:
    """Blocks without graphs, one after the other, until a capture is worth its price. last: the
    last one that the GPU is done with; period_ms: its median time from call to call.
    """

    def __init__(self, instruments: Instruments) -> None:
        self.period_ms = 0.0
        self.last: Block | None = None
        self.instruments = instruments
        self._calls = 0
        self._inside_total = 0.0
        self._now = Measurement(NO_GRAPH, _DROPPED, decision.block_calls(0), instruments)
        self._pending: deque[Measurement] = deque()

    def called(self, now: int) -> bool:
        """Note a call of the loop's first region; whether a capture is worth its price now."""
        self._calls += 1
        if self._calls == 1:
            self._inside_total = 0.0
            return False
        if self._now.called(now):
            self._pending.append(self._now)
            calls = decision.block_calls(self.period_ms)
            self._now = Measurement(NO_GRAPH, 0, calls, self.instruments)
            self._now.called(now)
        for block in _finished(self._pending):
            self.last, self.period_ms = block, statistics.median(block.periods_ms)
        return self.last is not None and decision.worth_capturing(
            self._calls - 1, self._inside_total
        )

    def ran(self, inside_ms: float) -> None:
        """Add the host time of a call of one of the group's regions."""
        self._inside_total += inside_ms
        self._now.ran(inside_ms)


class Trial:
    """Blocks of both candidates in the order A B B A, until `decision.decide` has a choice.

    A is the block without graphs that was measured before the capture. candidate: what calls have
    to use now.
    """

    def __init__(self, first: Block, instruments: Instruments) -> None:
        self._instruments = instruments
        self._calls = decision.block_calls(statistics.median(first.periods_ms))
        self._blocks = [first]
        self._pending: deque[Measurement] = deque()
        self._number = 1
        self._waited = 0
        self.choice: Choice | None = None
        self._measure(_DROPPED_AFTER_CAPTURE)

    def _measure(self, drop: int) -> None:
        self._waited = 0
        self.candidate = (NO_GRAPH, GRAPH)[decision.order(self._number)]
        # As many calls for both candidates: what interrupts a block then weighs the same.
        self._now = Measurement(self.candidate, drop, self._calls, self._instruments)

    def called(self, now: int) -> bool:
        """Note a call of the loop's first region; whether `candidate` or `choice` is new."""
        if not self._waited and self._now.called(now):
            self._pending.append(self._now)
            self._waited = _MOST_WAITED
        if found := [*_finished(self._pending)]:
            self._blocks += found
            self.choice = decision.decide(self._blocks)
            if self.choice is not None:
                return True
        if self._waited:
            self._waited -= 1
            switches = decision.order(self._number) != decision.order(self._number + 1)
            if not (switches and self._pending and self._waited):
                self._number += 1
                self._measure(_DROPPED)
                return True
        return False

    def ran(self, inside_ms: float) -> None:
        """Add the host time of a call of one of the group's regions."""
        self._now.ran(inside_ms)
