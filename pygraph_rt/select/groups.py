"""Which compiled graphs are called together, and whose turn it is to be compared."""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from typing import Any

from pygraph_rt.select.remembered import Decisions
from pygraph_rt.select.trial import LEFT_BEHIND, Group, Instruments, Member

# Graphs are one loop when this often in a row each call of the first is followed by exactly one
# call of the other.
_MATCHING_CYCLES = 2
_TRAIL = 256
_ABANDONED_S, _ABANDONED_CALLS = 1.0, 20


class Entry:
    """One compiled Dynamo graph: the watcher of its partitions, forward and backward."""

    deciding = True

    def __init__(self, selector: Selector, decisions: Decisions) -> None:
        self.decisions = decisions
        self._selector = selector
        self._members: list[weakref.ref[Member]] = []
        self._first: weakref.ref[Member] | None = None
        self.group: Group | None = None
        self.together: dict[Entry, int] = {}
        self._tick, self._since = 0, 0

    def add(self, member: Member) -> None:
        """Watch a partition that has just been compiled."""
        self._members.append(weakref.ref(member))
        member.watch(self, False)
        member.use(False)
        if self.group is not None:
            self.group.added(member)

    def members(self) -> list[Member]:
        """The partitions that are alive."""
        found = [r() for r in self._members]
        return [m for m in found if m is not None]

    def first(self) -> Member | None:
        """The partition whose call is the graph's clock: the first that was called."""
        return None if self._first is None else self._first()

    def count_alone(self, tick: int, calls: int) -> int:
        """Add calls that this graph had without its group's leader, last called at `tick`; returns
        how many there are by now.
        """
        self._since = self._since + calls if tick == self._tick else calls
        self._tick = tick
        return self._since

    def call(self, member: Member, args: list[Any]) -> Any:
        """One call of a partition that is watched."""
        instruments = self._selector.instruments
        if instruments.capturing():
            return member(args, False)
        first = self.first()
        if first is None:
            first, self._first = member, weakref.ref(member)
        if first is member:
            self._selector.entered(self)
        started = instruments.clock()
        results = member(args, False)
        if self.group is not None:
            self.group.ran(member, (instruments.clock() - started) / 1e6)
        return results


class Selector:
    """All of a process's groups: puts graphs together, and lets one group be compared at a
    time.
    """

    def __init__(self, instruments: Instruments) -> None:
        self.instruments = instruments
        self._lock = threading.RLock()
        self._trails = threading.local()
        self._holder: weakref.ref[Group] | None = None

    def entered(self, entry: Entry) -> None:
        """A graph is about to be called."""
        thread = threading.get_ident()
        with self._lock:
            if entry.group is None:
                entry.group = Group(entry, self, thread)
            group = entry.group
            if group.phase == "watching":
                self._follow(entry, group)
                group = entry.group
            if group.leader is entry:
                group.entered(thread, self.instruments.clock())
            elif entry.count_alone(group.last_tick, 1) > LEFT_BEHIND:
                self._leave_behind(group, entry)

    def waited(self, entry: Entry) -> None:
        """A graph of a group that waits was called a number of times."""
        with self._lock:
            group = entry.group
            if group is None or group.phase != "waiting":
                return
            if group.leader is entry:
                group.begin(self.instruments.clock())
            elif entry.count_alone(group.last_tick, LEFT_BEHIND) > LEFT_BEHIND:
                self._leave_behind(group, entry)
            else:
                group.wait(entry)

    def _leave_behind(self, group: Group, entry: Entry) -> None:
        """The group's leader is not called any more: Dynamo compiled it anew, say."""
        group.dismiss(entry)
        entry.group = Group(entry, self, threading.get_ident())
        entry.group.start()

    def _follow(self, entry: Entry, group: Group) -> None:
        """Put graphs together that this thread calls in turn."""
        trail = getattr(self._trails, "calls", None)
        if trail is None:
            trail = self._trails.calls = deque(maxlen=_TRAIL)
        between: list[Entry] = []
        for other in reversed(trail):
            if other is entry:
                break
            between.append(other)
        trail.append(entry)
        if len(between) + 1 == len(trail) or group.leader is not entry:
            return
        once = [other for other, times in Counter(between).items() if times == 1]
        entry.together = {other: entry.together.get(other, 0) + 1 for other in once}
        for other, cycles in entry.together.items():
            theirs = other.group
            if (
                cycles >= _MATCHING_CYCLES
                and theirs is not None
                and theirs is not group
                and theirs.leader is other
                and theirs.phase == "watching"
            ):
                group.join(theirs)

    def take(self, group: Group, now: int) -> bool:
        """Whether a group may be compared now: no other one is, or that one is not called any
        more.
        """
        holder = self._holder() if self._holder is not None else None
        if holder is not None and holder is not group:
            quiet = (now - holder.last_tick) / 1e9
            if quiet < max(_ABANDONED_S, _ABANDONED_CALLS * holder.period_ms / 1e3):
                return False
            holder.suspend()
        self._holder = weakref.ref(group)
        return True

    def give(self, group: Group) -> None:
        """A group is done being compared."""
        if self._holder is not None and self._holder() is group:
            self._holder = None
