"""Which compiled graphs are called together, and which of these groups has its trial.

Compiled Dynamo graphs that are called one after the other in a loop switch together, because what
the program feels is the time of the whole loop. One group has its trial at a time. A region that is
decided has nothing of this left on its calls.
"""

from __future__ import annotations

import enum
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Protocol

from pygraph_rt.interrupts import to_the_end
from pygraph_rt.reports.candidates import GRAPH, NO_GRAPH
from pygraph_rt.reports.report import Region, log
from pygraph_rt.select.agreed_trial import AgreedTrial
from pygraph_rt.select.ballot import Ballot, Ballots
from pygraph_rt.select.decision import Choice
from pygraph_rt.select.remembered import Decision, Decisions
from pygraph_rt.select.trial import Baseline, Instruments, Trial

# How often, and how long at least, the loop is repeated until every region has its graph; more
# often while none has. Another thread may take a while to make one.
_CAPTURING_CYCLES, _MOST_CAPTURING_CYCLES, _CAPTURING_NS = 8, 64, 1_000_000_000
# So many calls in a row from another thread make that thread's loop the clock.
_FOREIGN_CALLS = 64
# So many calls after which a group that waits asks again, and so many of a graph without any of its
# group's leader after which it is a group of its own.
_ASK_AGAIN, _LEFT_BEHIND = 16, 256
# How often a trial is repeated, because a partition was compiled late.
_MOST_REPEATS = 3
# Graphs are one loop when this often in a row each call of the first is followed by exactly one
# call of the other.
_MATCHING_CYCLES = 2
_RECENT_CALLS = 256
_ABANDONED_S, _ABANDONED_CALLS = 1.0, 20


class Member(Protocol):
    """What a group asks of a partition. key: of its remembered decision. device: index of its
    GPU.
    """

    region: Region
    key: str

    @property
    def device(self) -> int:
        """Index of its GPU."""

    def watch(self, watcher: Any, may_capture: bool) -> None:
        """Send calls through `watcher`, or directly where it is None."""

    def use(self, graphs: bool) -> None:
        """Whether calls may use graphs."""

    def leave(self, reason: str) -> None:
        """Free the graphs and run compiled code."""

    def settled(self) -> str | None:
        """ "graph" or "no graph"; None while that is open."""


Run = Callable[[list[Any]], Any]


class Phase(enum.Enum):
    """Where a group stands."""

    WATCHING = "watching"  # which graphs belong together; is a capture worth it
    WAITING = "waiting"  # for another group's trial to end
    CAPTURING = "capturing"
    COMPARING = "comparing"
    DECIDED = "decided"


class CompiledGraph:
    """One compiled Dynamo graph: the watcher of its partitions, forward and backward. calls: how
    often it was called while it was watched or waited.
    """

    deciding = True

    def __init__(self, selector: Selector, decisions: Decisions) -> None:
        self.decisions = decisions
        self.group: Group | None = None
        self.cycles_with: dict[CompiledGraph, int] = {}
        self._selector = selector
        self._members: list[weakref.ref[Member]] = []
        self._first: weakref.ref[Member] | None = None
        self._leader_call, self._calls_alone = 0, 0
        self.calls = 0

    def add(self, member: Member) -> None:
        """Watch a partition that has just been compiled."""
        self._members.append(weakref.ref(member))
        member.watch(self, False)
        member.use(False)
        if self.group is not None:
            self._selector.added(self.group)

    def members(self) -> list[Member]:
        """The partitions that are alive."""
        found = [r() for r in self._members]
        return [m for m in found if m is not None]

    def first(self) -> Member | None:
        """The partition whose call is the graph's clock: the first that was called."""
        return None if self._first is None else self._first()

    def count_alone(self, leader_call: int, calls: int) -> int:
        """Add calls that this graph had since its group's leader was called, at `leader_call`;
        returns how many there are by now.
        """
        self._calls_alone = self._calls_alone + calls if leader_call == self._leader_call else calls
        self._leader_call = leader_call
        return self._calls_alone

    def call(self, member: Member, run: Run, args: list[Any]) -> Any:
        """One call of a partition that is watched, made by `run(args)`."""
        instruments = self._selector.instruments
        if instruments.capturing():
            return run(args)
        first = self.first()
        if first is None:
            first, self._first = member, weakref.ref(member)
        if first is member:
            self._selector.called(self)
        started = instruments.clock()
        results = run(args)
        if self.group is not None:
            self.group.ran((instruments.clock() - started) / 1e6)
        return results


@dataclass
class Capturing:
    """Since when (nanoseconds) a group makes its graphs; early: before they are as quick as they
    will be; cycles: how often its loop was repeated meanwhile.
    """

    since: int
    early: bool
    cycles: int = 0


class Group:
    """Compiled graphs that switch together. Its methods are called under the selector's lock, `ran`
    aside. last_call: when the leader was last called, in nanoseconds. baseline: its calls
    without graphs.
    """

    def __init__(self, leader: CompiledGraph, selector: Selector, thread: int) -> None:
        self.leader = leader
        self.graphs = [leader]
        self.thread = thread
        self.phase = Phase.WATCHING
        self.last_call = 0
        self._selector = selector
        self._foreign = 0
        self._capturing = Capturing(0, False)
        self._repeats = 0
        device = next((m.device for m in leader.members()), 0)
        self.baseline = Baseline(selector.instruments.on(device))
        self._trial: Trial | AgreedTrial | None = None

    def members(self) -> list[Member]:
        """The partitions that are alive, in the order they were compiled."""
        return [m for graph in self.graphs for m in graph.members()]

    def _watch(self, may_capture: bool) -> None:
        for graph in self.graphs:
            for member in graph.members():
                member.watch(graph, may_capture)

    def _use(self, graphs: bool) -> None:
        for member in self.members():
            member.use(graphs)

    def added(self) -> None:
        """A partition was compiled late, as the backward of a training step is."""
        if self.phase is Phase.DECIDED and self._repeats < _MOST_REPEATS:
            self._repeats += 1
            self.start_over()

    def ran(self, inside_ms: float) -> None:
        """Add one call's host time."""
        if self.phase is Phase.WATCHING:
            self.baseline.ran(inside_ms)
        elif self._trial is not None:
            self._trial.ran(inside_ms)

    def called(self, thread: int, now: int) -> None:
        """The leader is about to be called."""
        if thread != self.thread:
            self._foreign += 1
            if self._foreign < _FOREIGN_CALLS:
                return
            self.thread = thread
        self._foreign = 0
        self.last_call = now
        if self.phase is Phase.WATCHING:
            if self.baseline.called(now):
                self.begin(now)
        elif self.phase is Phase.WAITING:
            self.begin(now)  # a partition that was compiled late may still be watched
        elif self.phase is Phase.CAPTURING:
            self._capture(now)
        elif self.phase is Phase.COMPARING:
            self._compare(now)

    def begin(self, now: int) -> None:
        """Make graphs; where another group has its trial, wait and ask again later. Calls have
        nothing of that but a countdown on each graph's first region.
        """
        self.last_call = now
        if self._selector.claim(self, now):
            self._capturing = Capturing(now, self._selector.will_be_quicker())
            _wholly(self._make_graphs)
        else:
            _wholly(self._wait)

    def _make_graphs(self) -> None:
        self.phase = Phase.CAPTURING
        self._watch(may_capture=True)
        self._use(graphs=True)

    def _wait(self) -> None:
        self.phase = Phase.WAITING
        for member in self.members():
            member.watch(None, False)
        for graph in self.graphs:
            self.wait(graph)

    def wait(self, graph: CompiledGraph) -> None:
        """Count calls of a graph while its group waits."""
        first = graph.first()
        if first is not None:
            calls = _ASK_AGAIN if graph is self.leader else _LEFT_BEHIND
            first.watch(Countdown(partial(self._selector.waited, graph), calls), False)

    def _capture(self, now: int) -> None:
        """Wait until every region has its graph or was refused, then begin the trial."""
        self._capturing.cycles += 1
        found = [m.settled() for m in self.members()]
        most = _CAPTURING_CYCLES if GRAPH in found else _MOST_CAPTURING_CYCLES
        waited = now - self._capturing.since
        if None in found and (self._capturing.cycles < most or waited < _CAPTURING_NS):
            return
        first, shared = self.baseline.last, self._ballot()
        if GRAPH not in found or first is None:
            if shared is not None:
                shared[0].announce(NO_GRAPH)
            self._finish(None)
            return
        trial: Trial | AgreedTrial
        if shared is None:
            trial = Trial(first, self.baseline.instruments)
        else:
            trial = AgreedTrial(*shared, self.baseline.instruments, self.leader.calls)
            self._selector.release(self)  # other ranks may have let another group begin
        _wholly(partial(self._begin_trial, trial))

    def _begin_trial(self, trial: Trial | AgreedTrial) -> None:
        self._trial = trial
        self.phase = Phase.COMPARING
        self._use(trial.candidate == GRAPH)

    def _ballot(self) -> tuple[Ballot, bool] | None:
        """Where ranks vote on this group, and whether this rank votes for it; None: no ranks."""
        first = self.leader.first()
        if first is None:
            return None
        region = first.region
        return self._selector.ballots.of(first.key or f"{region.name} {region.source}")

    def _compare(self, now: int) -> None:
        trial = self._trial
        if trial is None or (trial.choice is None and not trial.called(now)):
            return
        if trial.choice is not None:
            self._finish(trial.choice)
        else:
            _wholly(partial(self._use, trial.candidate == GRAPH))

    def _finish(self, choice: Choice | None) -> None:
        """Act on a choice; None: no partition has a graph to choose."""
        found = [(member, member.settled()) for member in self.members()]
        _wholly(partial(self._decide, found, choice))
        if choice is not None:
            names = ", ".join(member.region.name for member, _ in found)
            log.info("%s: %s, because %s.", names, choice.winner, choice.why)

    def _decide(self, found: list[tuple[Member, str | None]], choice: Choice | None) -> None:
        """The same, with what each partition has."""
        for member, settled in found:
            if settled is None and (choice is None or choice.winner == NO_GRAPH):
                member.leave("none of its calls could be captured during the trial")
            elif choice is None or settled != GRAPH:
                member.use(True)  # what is refused stays so, with its own reason
            else:
                self._note(member, choice)
                if choice.winner == GRAPH:
                    member.use(True)
                else:
                    member.leave(choice.why)
        self.phase = Phase.DECIDED
        self._trial = None
        for member, _ in found:
            member.watch(None, True)
        self._selector.release(self)

    def _note(self, member: Member, choice: Choice) -> None:
        """Report a choice, and remember it for later processes if it is no guess, and calls with
        graphs will not be quicker there.
        """
        region, spread = member.region, choice.costs.get(choice.winner)
        region.choice, region.choice_why = choice.winner, choice.why
        region.candidates = {name: asdict(spread) for name, spread in choice.costs.items()}
        if choice.noisy or self._capturing.early or self._selector.will_be_quicker():
            return
        period = spread.median if spread else 0.0
        self.leader.decisions.save(member.key, Decision(choice.winner, choice.why, period))

    def start_over(self) -> None:
        """Watch from the beginning: calls run compiled code."""
        _wholly(self._watch_again)

    def _watch_again(self) -> None:
        self.phase = Phase.WATCHING
        self._trial = None
        self.baseline = Baseline(self.baseline.instruments)
        for member in self.members():
            region = member.region
            region.choice, region.choice_why, region.candidates = "", "", {}
        self._watch(may_capture=False)
        self._use(graphs=False)


def _wholly(step: Callable[[], None]) -> None:
    """Take a step that may be taken again: where an exception such as Ctrl-C comes in its middle,
    it is taken to its end all the same, so that no half of a group is left behind.
    """
    try:
        step()
    except BaseException:
        to_the_end(step)
        raise


class Countdown:
    """Watches a region for a number of calls, then says so."""

    deciding = False

    def __init__(self, done: Callable[[], None], calls: int) -> None:
        self._done = done
        self._left = calls

    def call(self, member: Member, run: Run, args: list[Any]) -> Any:
        """One call of the region, made by `run(args)`."""
        self._left -= 1
        if self._left <= 0:  # threads may count past it
            self._done()
        return run(args)


class Selector:
    """All of a process's groups: puts graphs together, and lets one group have its trial at a
    time.
    """

    def __init__(
        self,
        instruments: Instruments,
        ballots: Ballots | None = None,
        will_be_quicker: Callable[[], bool] = bool,
    ) -> None:
        """`will_be_quicker`: whether what makes calls with graphs quicker is still being built."""
        self.instruments = instruments
        self.will_be_quicker = will_be_quicker
        self.ballots = ballots or Ballots()
        self._lock = threading.RLock()
        self._calls = threading.local()
        self._holder: weakref.ref[Group] | None = None

    def added(self, group: Group) -> None:
        """A graph of a group has one more partition."""
        with self._lock:
            group.added()

    def called(self, graph: CompiledGraph) -> None:
        """A graph is about to be called."""
        thread = threading.get_ident()
        with self._lock:
            graph.calls += 1
            if graph.group is None:
                graph.group = Group(graph, self, thread)
            if graph.group.phase is Phase.WATCHING:
                self._join_neighbours(graph, graph.group)
            group = graph.group
            if group.leader is graph:
                group.called(thread, self.instruments.clock())
            elif graph.count_alone(group.last_call, 1) > _LEFT_BEHIND:
                self._leave_behind(group, graph)

    def waited(self, graph: CompiledGraph) -> None:
        """A graph of a group that waits was called a number of times."""
        with self._lock:
            group = graph.group
            if group is None or group.phase is not Phase.WAITING:
                return
            if group.leader is graph:
                graph.calls += _ASK_AGAIN
                group.begin(self.instruments.clock())
            elif graph.count_alone(group.last_call, _LEFT_BEHIND) > _LEFT_BEHIND:
                self._leave_behind(group, graph)
            else:
                group.wait(graph)

    def _leave_behind(self, group: Group, graph: CompiledGraph) -> None:
        """The group's leader is not called any more: Dynamo compiled it anew, say."""
        group.graphs.remove(graph)
        graph.group = Group(graph, self, threading.get_ident())
        graph.group.start_over()

    def _join_neighbours(self, graph: CompiledGraph, group: Group) -> None:
        """Put graphs together that this thread calls in turn."""
        recent = getattr(self._calls, "recent", None)
        if recent is None:
            recent = self._calls.recent = deque(maxlen=_RECENT_CALLS)
        between: list[CompiledGraph] = []
        for other in reversed(recent):
            if other is graph:
                break
            between.append(other)
        recent.append(graph)
        if len(between) + 1 == len(recent) or group.leader is not graph:
            return
        once = [other for other, times in Counter(between).items() if times == 1]
        graph.cycles_with = {other: graph.cycles_with.get(other, 0) + 1 for other in once}
        for other, cycles in graph.cycles_with.items():
            theirs = other.group
            if (
                cycles >= _MATCHING_CYCLES
                and theirs is not None
                and theirs is not group
                and theirs.leader is other
                and theirs.phase is Phase.WATCHING
            ):
                group.graphs += theirs.graphs
                for joined in theirs.graphs:
                    joined.group = group

    def claim(self, group: Group, now: int) -> bool:
        """Whether a group may have its trial now: no other one has, or that one is not called any
        more.
        """
        holder = self._holder() if self._holder is not None else None
        if holder is not None and holder is not group:
            quiet = (now - holder.last_call) / 1e9
            if quiet < max(_ABANDONED_S, _ABANDONED_CALLS * holder.baseline.period_ms / 1e3):
                return False
            holder.start_over()
        self._holder = weakref.ref(group)
        return True

    def release(self, group: Group) -> None:
        """A group's trial is over."""
        if self._holder is not None and self._holder() is group:
            self._holder = None
