"""Graph and no graph take turns on live calls, until a measurement decides.

Nothing is run for the measurement's sake: no state is changed twice, no random number drawn twice.
Compiled Dynamo graphs that are called one after the other in a loop switch together, because what
the program feels is the time of the whole loop; its clock is the call of the first of them. Only
one group is compared at a time. A region that is decided has no trace of this left on its calls,
but for one countdown on each group's first region.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from pygraph_rt.reports.report import Region, log
from pygraph_rt.select import stats
from pygraph_rt.select.remembered import Decision
from pygraph_rt.select.stats import GRAPH, PLAIN, SOME, Block, Choice

if TYPE_CHECKING:
    from pygraph_rt.select.groups import Entry, Selector

# How often, and how long at least, the loop goes round until every region has its graph; more often
# while none has. Another thread may take a while to make one.
_SETTLING_CYCLES, _MOST_SETTLING_CYCLES, _SETTLING_NS = 8, 64, 1_000_000_000
# A graph that is new is instantiated again after its second launch.
_DROPPED, _DROPPED_AFTER_CAPTURE = 1, 3
# So many calls in a row from another thread make that thread's loop the clock.
_FOREIGN_CALLS = 64
# So many calls a block's result is waited for before the other candidate gets its turn: the result
# may be that it gets none.
_PATIENCE = 64
# So many calls after which a group that waits asks again, and so many of a graph without any of its
# group's leader after which it is on its own.
_ASK_AGAIN, LEFT_BEHIND = 16, 256
_KEPT_TIMES, _KEPT_RUNS = 64, 256
_FIRST_LOOK, _LOOK_GROWTH, _LOOKS = 1024, 4, 3


class Stamp(Protocol):
    """A point on the GPU's stream."""

    def query(self) -> bool:
        """Whether the GPU has come so far."""

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds on the GPU to a later point; both must have been reached."""


@dataclass(frozen=True)
class Instruments:
    """Clocks: nanoseconds of the host, a point on the current stream; and whether this thread is
    capturing a graph of its own, when no point may be made.
    """

    clock: Callable[[], int]
    stamp: Callable[[], Stamp]
    capturing: Callable[[], bool]


class Member(Protocol):
    """What a group asks of a partition. forward: whether a backward belongs to it."""

    region: Region
    key: str
    forward: bool

    def __call__(self, args: list[Any], watched: bool = True) -> Any:
        """Run it."""

    def watch(self, watcher: Any, may_capture: bool) -> None:
        """Send calls through `watcher`, or directly where it is None."""

    def use(self, graphs: bool) -> None:
        """Whether calls may use graphs."""

    def serve(self) -> None:
        """Use graphs from now on."""

    def leave(self, reason: str) -> None:
        """Free the graphs and stay on the ordinary path."""

    def settled(self) -> str | None:
        """ "graph" or "no graph"; None while that is open."""


class _Measurement:
    """One candidate's turn: a few calls to get going, then a block."""

    def __init__(self, candidate: str, drop: int, calls: int, instruments: Instruments) -> None:
        self.candidate = candidate
        self._drop = drop
        self._wanted = calls
        self._instruments = instruments
        self._last = 0
        self._periods: list[float] = []
        self._inside = 0.0
        self._start: Stamp | None = None
        self._end: Stamp | None = None
        self._last_call: Stamp | None = None
        self._behind = False

    def entered(self, now: int) -> bool:
        """Note a call of the loop's first region, which is about to run; whether the block is
        complete.
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
        """The finished block; None while the GPU has not come to its end."""
        if self._start is None or self._end is None or not self._end.query():
            return None
        return Block(
            self.candidate,
            tuple(self._periods),
            self._inside / len(self._periods),
            self._start.elapsed_time(self._end),
            self._behind,
        )


class Group:
    """Compiled graphs that switch together, and what was measured of them.

    phase: "watching" (which graphs belong together; is a capture worth it), "waiting" (for another
    group to be decided), "capturing", "comparing", "resting" (decided).
    """

    def __init__(self, leader: Entry, selector: Selector, thread: int) -> None:
        self.leader = leader
        self.entries = [leader]
        self.thread = thread
        self.phase = "watching"
        self.last_tick = 0
        self.period_ms = 0.0
        self._selector = selector
        self._instruments = selector.instruments
        self._foreign = 0
        self._calls = 0
        self._inside_total = 0.0
        self._cycles = 0
        self._capturing_since = 0
        # Calls of the leader that make one turn of the loop: one each, until that is known.
        self._turn_calls = 1
        self._since = 0
        self._ran = 0
        self._runs: deque[int] = deque(maxlen=_KEPT_RUNS)
        self._times: deque[int] = deque(maxlen=_KEPT_TIMES)
        self._now = self._measure(PLAIN, _DROPPED)
        self._pending: deque[_Measurement] = deque()
        self._blocks: list[Block] = []
        self._rivals = (PLAIN, GRAPH)
        self._turn = 0
        self._patience = 0
        self._some: frozenset[int] = frozenset()
        self._earlier: Choice | None = None
        self._inside: dict[tuple[int, str], deque[float]] = {}
        self._reference = 0.0
        self._look = _FIRST_LOOK
        self._looks = 0
        self._checking: _Measurement | None = None
        self._moved = False

    # -- members

    def members(self) -> list[Member]:
        """The partitions that are alive, in the order they were compiled."""
        return [m for entry in self.entries for m in entry.members()]

    def _watch(self, may_capture: bool) -> None:
        for entry in self.entries:
            for member in entry.members():
                member.watch(entry, may_capture)

    def join(self, other: Group) -> None:
        """Take in another group's graphs; both are being watched."""
        for entry in other.entries:
            entry.group = self
            self.entries.append(entry)

    def dismiss(self, entry: Entry) -> None:
        """Let go of a graph that this group's leader is not called with any more."""
        self.entries.remove(entry)

    def added(self, member: Member) -> None:
        """A partition was compiled late, as the backward graph of a training step is."""
        if self.phase == "resting":
            self.look_again()

    # -- calls

    def ran(self, member: Member, inside_ms: float) -> None:
        """Add one call's host time."""
        self._ran += 1
        self._inside_total += inside_ms
        self._now.ran(inside_ms)
        if self.phase in ("watching", "comparing"):
            key = (id(member), self._now.candidate)
            self._inside.setdefault(key, deque(maxlen=_KEPT_TIMES)).append(inside_ms)

    def entered(self, thread: int, now: int) -> None:
        """The leader is about to be called."""
        if thread != self.thread:
            self._foreign += 1
            if self._foreign < _FOREIGN_CALLS:
                return
            self.thread = thread
        self._foreign = 0
        self.last_tick = now
        self._since += 1
        if self._since < self._turn_calls:
            return
        self._since = 0
        getattr(self, "_" + self.phase)(now)

    def _measure(self, candidate: str, drop: int) -> _Measurement:
        # As many calls for both candidates: what interrupts a block then weighs the same.
        calls = stats.block_calls(self.period_ms)
        return _Measurement(candidate, drop, calls, self._instruments)

    def _watching(self, now: int) -> None:
        self._calls += 1
        if self._calls == 1:
            self._inside_total = 0.0
            self._ran = 0
            return
        self._runs.append(self._ran)
        self._ran = 0
        self._times.append(now)
        if self._now.entered(now):
            self._pending.append(self._now)
            self._now = self._measure(PLAIN, 0)
            self._now.entered(now)
        if self._collect():
            del self._blocks[:-1]
            self.period_ms = statistics.median(self._blocks[0].periods_ms)
        calls = self._calls - 1
        if self._blocks and stats.worth_capturing(calls, self._inside_total):
            turn = self._calls_of_a_turn()
            if turn is None:
                return
            if turn > 1:
                self._turn_calls = turn
                self.period_ms = (now - self._times[-1 - turn]) / 1e6
            self._pending.clear()
            self.begin(now)

    def begin(self, now: int) -> None:
        """Make graphs; where another group is being compared, wait and ask again later. Calls have
        no trace of that but a countdown on each graph's first region.
        """
        self.last_tick, self._since = now, 0
        if self._selector.take(self, now):
            self.phase = "capturing"
            self._cycles, self._capturing_since = 0, now
            self._watch(may_capture=True)
            self._use(self._with_graphs(GRAPH))
            return
        self.phase = "waiting"
        for member in self.members():
            member.watch(None, False)
        for entry in self.entries:
            self.wait(entry)

    _waiting = begin  # a partition that was compiled late may still be watched

    def wait(self, entry: Entry) -> None:
        """Count calls of a graph while its group waits."""
        first = entry.first()
        if first is not None:
            calls = _ASK_AGAIN if entry is self.leader else LEFT_BEHIND
            first.watch(_Countdown(partial(self._selector.waited, entry), calls), False)

    def _calls_of_a_turn(self) -> int | None:
        """How many calls of the leader make one turn of the loop; None: not clear yet."""
        found = [[m.forward for m in entry.members()] for entry in self.entries]
        if not any(any(forward) for forward in found):
            return 1  # without a backward, all that a call leads to has run by the next one
        forward_only = any(forward and all(forward) for forward in found)
        return stats.turn(list(self._runs), forward_only)

    def _capturing(self, now: int) -> None:
        self._cycles += 1
        found = [m.settled() for m in self.members()]
        patience = _SETTLING_CYCLES if GRAPH in found else _MOST_SETTLING_CYCLES
        waited = now - self._capturing_since
        if None in found and (self._cycles < patience or waited < _SETTLING_NS):
            return
        if GRAPH not in found:
            self._finish(None, frozenset())
            return
        self.phase = "comparing"
        self._turn = 1
        self._begin(_DROPPED_AFTER_CAPTURE)

    def _begin(self, drop: int) -> None:
        self._patience = 0
        candidate = self._rivals[stats.order(self._turn)]
        self._use(self._with_graphs(candidate))
        self._now = self._measure(candidate, drop)

    def _with_graphs(self, candidate: str) -> frozenset[int]:
        if candidate == PLAIN:
            return frozenset()
        if candidate == SOME:
            return frozenset(self._some)
        return frozenset(id(m) for m in self.members())

    def _use(self, wanted: frozenset[int]) -> None:
        for member in self.members():
            member.use(id(member) in wanted)

    def _comparing(self, now: int) -> None:
        if not self._patience and self._now.entered(now):
            self._pending.append(self._now)
            self._patience = _PATIENCE
        if self._collect():
            choice = stats.decide(self._blocks)
            if choice is not None:
                self._chosen(choice)
                return
        if self._patience:
            self._patience -= 1
            switches = stats.order(self._turn) != stats.order(self._turn + 1)
            if not (switches and self._pending and self._patience):
                self._turn += 1
                self._begin(_DROPPED)

    def _collect(self) -> bool:
        """Take in blocks that the GPU is done with, in order; whether there were any."""
        found = False
        while self._pending and (block := self._pending[0].block()) is not None:
            self._pending.popleft()
            self._blocks.append(block)
            found = True
        return found

    # -- decisions

    def _chosen(self, choice: Choice) -> None:
        members = self.members()
        if SOME not in self._rivals:
            some = frozenset(id(m) for m in members if self._saves(m))
            everything = frozenset(id(m) for m in members if m.settled() == GRAPH)
            if some and some != everything:
                self._some, self._earlier = some, choice
                self._rivals = (choice.winner, SOME)
                self._blocks, self._turn = [], 0
                self._pending.clear()
                self._begin(_DROPPED)
                return
        self._finish(choice, self._with_graphs(choice.winner))

    def _saves(self, member: Member) -> bool:
        times = [sorted(self._inside.get((id(member), c), ())) for c in (GRAPH, PLAIN)]
        if not all(times):
            return False
        with_graph, without = (t[len(t) // 2] for t in times)
        return stats.saves_host_time(with_graph, without)

    def _finish(self, choice: Choice | None, kept: frozenset[int]) -> None:
        """Act on a choice; None: no partition has a graph to choose."""
        self._selector.give(self)
        self.phase = "resting"
        members = self.members()
        spread = choice.costs.get(choice.winner) if choice is not None else None
        self._reference = spread.median if spread else 0.0
        for member in members:
            settled = member.settled()
            if settled is None and (choice is None or choice.winner == PLAIN):
                member.leave("none of its calls could be captured while that was tried")
            elif choice is None or settled != GRAPH:
                member.use(True)  # what is declined stays so, with its own reason
            elif id(member) in kept:
                member.serve()
                self._note(member, choice, GRAPH)
            else:
                self._note(member, choice, PLAIN)
                member.leave(choice.why)
            member.watch(None, True)
        self._blocks, self._inside = [], {}
        self._pending.clear()
        if choice is None:
            return
        log.info(
            "%s: %s, because %s.",
            ", ".join(m.region.name for m in members),
            choice.winner,
            choice.why,
        )
        self._rest()

    def _note(self, member: Member, choice: Choice, own: str) -> None:
        region = member.region
        costs, why = choice.costs, choice.why
        if self._earlier is not None:
            costs = {**self._earlier.costs, **costs}
            if own == GRAPH == self._earlier.winner and choice.winner == SOME:
                why = self._earlier.why  # the later choice was about the others
        region.choice, region.choice_why = own, why
        region.candidates = {name: asdict(spread) for name, spread in costs.items()}
        decision = Decision(own, why, self._reference)
        self.leader.decisions.save(member.key, decision)

    # -- after the decision

    def _rest(self) -> None:
        first = self.leader.first()
        if first is not None and self._looks < _LOOKS and self._reference:
            first.watch(_Countdown(self.check, self._look), True)
            self._look *= _LOOK_GROWTH

    def check(self) -> None:
        """Measure one block of what is in use, to see whether its cost has moved."""
        self._moved = False
        self._checking = self._measure(GRAPH, _DROPPED)
        first = self.leader.first()
        if first is not None:
            first.watch(self.leader, True)

    def _resting(self, now: int) -> None:
        checking = self._checking
        if checking is None:
            return
        if not self._pending:
            if checking.entered(now):
                self._pending.append(checking)
            return
        block = checking.block()
        if block is None:
            return
        self._pending.clear()
        self._checking = None
        found = stats.cost(block)
        moved = found is not None and stats.drifted(self._reference, found.ms)
        if moved and not self._moved:
            self._moved = True
            self._checking = self._measure(GRAPH, 0)  # once may be a slow moment
        elif moved:
            self.look_again()
        else:
            self._rest()

    def suspend(self) -> None:
        """Stop comparing, because the group is not called any more; a later call starts over."""
        self._start_over()

    def look_again(self) -> None:
        """Compare once more, from the beginning."""
        if self._looks < _LOOKS:
            self._looks += 1
            self._start_over()

    def _start_over(self) -> None:
        self.phase = "watching"
        self._calls = 1
        self._rivals = (PLAIN, GRAPH)
        self._blocks, self._inside, self._turn = [], {}, 0
        self._inside_total, self._some, self._earlier = 0.0, frozenset(), None
        self._turn_calls, self._ran = 1, 0
        self._runs.clear()
        self._times.clear()
        self._pending.clear()
        self._now = self._measure(PLAIN, _DROPPED)
        self.start()

    def start(self) -> None:
        """Watch calls, which take the ordinary path."""
        self._watch(may_capture=False)
        self._use(frozenset())


class _Countdown:
    """Stands before a region for a number of calls, then tells so."""

    deciding = False

    def __init__(self, done: Callable[[], None], calls: int) -> None:
        self._done = done
        self._left = calls

    def call(self, member: Member, args: list[Any]) -> Any:
        """One call of the region."""
        self._left -= 1
        if self._left <= 0:  # threads may count past it
            self._done()
        return member(args, False)
