"""The compiled segments of one trace, and how many graphs they hold once some breaks are fixed.

A function that breaks is compiled in segments: up to the first break, from there to the next one,
and so on. Where the break is in a function that it calls, the called function is compiled in
segments of its own. A segment holds one graph for each time it was compiled, or none where it does
nothing with tensors. To count the graphs that are left, torch.compile is followed through the
segments: it goes on behind a break that is fixed, into the functions called there, until a break
that is not.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from math import gcd

from pygraph_lint.trace.document import Event, Frame, Trace

_ENDS = ("graph_break", "skipped_frame", "compile_error")
_AGAIN = ("recompile", "cache_limit")
_VALUE = re.compile(r"([\w.]+) (?:==|!=|is|<|<=|>|>=) ")
_RETURNED = "___stack"  # Dynamo's name for what the operation before a segment has returned
Stack = Sequence[Frame]


def _segment(compile_id: str) -> str:
    """The part of torch's number that all compilations of one piece of code share."""
    return compile_id.partition("/")[0]


def _number(segment: str) -> int:
    """Segments are numbered in the order in which they were first compiled."""
    return int(segment) if segment.isdecimal() else 0


def _ends_with(stack: Stack, end: Stack) -> bool:
    return stack[-len(end) :] == end


class Segments:
    """What was compiled in one trace. A segment is named by torch's number."""

    def __init__(self, trace: Trace) -> None:
        self._graphs = Counter(_segment(r.compile_id) for r in trace.regions if r.compile_id)
        with_graph = {region.compile_id for region in trace.regions}
        self._calls: Counter[str] = Counter()
        for region in trace.regions:
            self._calls[_segment(region.compile_id)] += region.calls
        attempts = Counter(_segment(one.compile_id) for one in trace.compilations)
        # Runs of what was compiled without a graph, or not at all, are not counted.
        self._all_counted = {
            name for name in attempts if attempts[name] == self._graphs[name] and self._calls[name]
        }
        # Of code that was compiled before tracing began nothing is known.
        self._more = sum(not region.compile_id for region in trace.regions)
        self._breaks: defaultdict[str, list[Event]] = defaultdict(list)
        self._values: defaultdict[str, list[str]] = defaultdict(list)
        self._assigned: set[str] = set()
        self._again: set[str] = set()
        self._frames = {_segment(r.compile_id): r.frame for r in trace.regions if r.compile_id}
        for event in trace.events:
            names = {_segment(one) for one in event.compile_ids}
            self._again |= names if event.kind in _AGAIN else set()
            value = _VALUE.match(event.reason) if event.kind == "recompile" else None
            for one in event.compile_ids if value else ():
                self._values[_segment(one)] += [value[1]] if value and one in with_graph else []
            for name in names if event.kind in _ENDS and not event.is_empty else ():
                self._breaks[name].append(event)
            # An event of several segments has the frame of one of them: compilations know better.
            self._frames.update({name: event.frame for name in names if event.frame is not None})
        self._frames.update({_segment(one.compile_id): one.frame for one in trace.compilations})
        self._frames = dict(sorted(self._frames.items(), key=lambda pair: _number(pair[0])))
        self._behind: defaultdict[str, set[str]] = defaultdict(set)
        self._called: defaultdict[str, set[str]] = defaultdict(set)
        self._link(trace)
        self._all = {e.name: e for events in self._breaks.values() for e in events}.values()
        self._fixed: set[str] = set()

    def _link(self, trace: Trace) -> None:
        """Note for each segment what goes on behind it, and the segments of what it calls."""
        of: defaultdict[Frame | None, set[str]] = defaultdict(set)
        for name, frame in self._frames.items():
            of[frame].add(name)
        for name, events in self._breaks.items():
            for event in events:
                self._behind[name] |= of.get(event.stack[0], set()) - {name}
        inner = set().union(*self._behind.values())
        called = {_segment(one.compile_id) for one in trace.compilations}
        for one in trace.compilations:
            name = _segment(one.compile_id)
            callers = self._that_call(of.get(one.called_by, set()) - {name})
            for caller in callers if name not in inner else ():
                self._called[caller].add(name)
            if not callers:
                called.discard(name)
        self._roots = [name for name in self._frames if name not in called | inner]
        self._elsewhere = {name: self._graphs_elsewhere(name) for name in called - inner}

    def _that_call(self, same: Set[str]) -> Set[str]:
        """Of segments that begin in the same line, those that do not break there themselves."""
        found = {
            one
            for one in same
            if any(len(event.stack) > 1 for event in self._breaks.get(one, ()))
            or one not in self._breaks
        }
        return found or same

    def _graphs_elsewhere(self, name: str) -> int:
        """How many graphs a function has where it is called by others than those it breaks.

        Torch notes who calls a function only when it compiles it, so calls are counted. A caller
        may call it several times where it breaks: a multiple of the callers' runs says nothing.
        """
        callers = [self._runs(one) for one in self._broken_by(name)]
        runs = self._runs(name)
        more = runs - sum(callers)
        if not callers or not all(callers) or more <= 0 or more % gcd(*callers) == 0:
            return 0
        return -(-self._graphs[name] * more // runs)

    def _broken_by(self, name: str) -> set[str]:
        """The segments that break because this function, which they call themselves, does."""
        own = {event.stack for event in self._breaks.get(name, ())}
        longer = sorted(
            ((event.stack, one) for one, events in self._breaks.items() for event in events),
            key=lambda pair: len(pair[0]),
        )
        nearest: dict[Stack, set[str]] = {}
        for stack, one in longer:
            if one != name and any(_ends_with(stack, end) for end in own):
                between = any(_ends_with(stack, end) for end in nearest if len(end) < len(stack))
                if not between:
                    nearest.setdefault(stack, set()).add(one)
        return set().union(*nearest.values())

    def _runs(self, name: str) -> int:
        """How often a segment was run; 0 where it is not known."""
        todo, seen = [name], {name}
        while todo:
            one = todo.pop()
            if one in self._all_counted:
                return self._calls[one]
            more = self._behind.get(one, set()) - seen
            seen |= more
            todo += more
        return 0

    def fix(self, event: Event, assigned: Set[str] = frozenset()) -> None:
        """From now on this break is gone, from wherever its functions are compiled.

        So are the values that its statement assigned, as numbers of Python.
        """
        self._assigned |= assigned
        for one in self._all:
            if _ends_with(event.stack, one.stack):
                self._fixed.add(one.name)

    def count(self) -> tuple[int, bool]:
        """How many graphs there are, and whether that is certain."""
        graphs, certain = self._more, True
        todo, seen = list(self._roots), set(self._roots)
        elsewhere: set[str] = set()
        while todo:
            name = todo.pop()
            part, end = self._traced(name, frozenset())
            own = self._of_its_function(name, part)
            skipped = end is not None and self._is_skipped(end)
            graphs += self._compiled(name, part, own)
            certain &= self._variants(name, False) == self._graphs[name]
            certain &= len(part) == 1 or (not skipped and self._is_certain(part))
            # A function that is given up calls on their own what would be a part of it.
            apart = {n for n in own if skipped or n == end or n not in self._breaks}
            after = self._next(apart, end) - seen - (set() if skipped else part)
            if name not in self._roots:
                elsewhere |= part - own
            seen |= after
            todo += after
        return graphs + sum(self._elsewhere.get(one, 0) for one in elsewhere - seen), certain

    def _variants(self, name: str, continues: bool) -> int:
        """How many graphs a segment has, but for values that a break gave that is gone.

        continues: whether the segment goes on behind such a break.
        """
        gone = (
            value in self._assigned or (continues and value.startswith(_RETURNED))
            for value in self._values.get(name, ())
        )
        return self._graphs[name] - sum(gone)

    def _compiled(self, name: str, part: Set[str], own: Set[str]) -> int:
        """How often a part is compiled with a graph: as often as the function it begins in.

        Where a function that it calls was compiled more often than it runs in one call of the part,
        some calls of the part differ.
        """
        runs = max(self._calls[one] for one in own)
        counted = part & self._all_counted - own
        graphs = {one: self._variants(one, one != name) for one in part}
        inner = (-(-graphs[one] * runs // self._calls[one]) for one in counted)
        most = max(graphs[one] for one in own)
        return max([most, *inner]) or any(self._graphs[one] for one in part)

    def _next(self, apart: Set[str], end: str | None) -> set[str]:
        """What is compiled on its own after a segment ends."""
        found = set().union(*(self._called.get(one, set()) for one in apart))
        return found | (self._behind.get(end, set()) if end is not None else set())

    def _traced(self, name: str, around: Set[str]) -> tuple[set[str], str | None]:
        """The segments that are traced together from the start of one.

        With the segment whose break ends that; None where nothing does.
        """
        part, around = {name}, around | {name}
        if any(event.name not in self._fixed for event in self._breaks.get(name, ())):
            return part, name
        if name not in self._breaks:
            return part, None
        at_break = self._called_at_break(name)
        for one in sorted(self._called.get(name, set()) - around, key=_number):
            inside, end = self._traced(one, around)
            # What was called before the break was traced without one. Else the same call breaks.
            if end is not None and _number(one) >= at_break:
                return {name}, name
            part |= inside
        for one in sorted(self._behind.get(name, set()) - around, key=_number):
            inside, end = self._traced(one, around)
            part |= inside
            if end is not None:
                return part, end
        return part, None

    def _called_at_break(self, name: str) -> int:
        """The first function that a segment calls where it breaks; 0 where it calls none there."""
        ends = [event.stack for event in self._breaks[name]]
        found = [
            _number(one)
            for one in self._called.get(name, ())
            for event in self._breaks.get(one, ())
            if any(_ends_with(end, event.stack) for end in ends)
        ]
        return min(found, default=0)

    def _of_its_function(self, name: str, part: Set[str]) -> set[str]:
        """Those of a part that belong to the function it begins in, not to one that it calls."""
        own, todo = {name}, [name]
        while todo:
            more = self._behind.get(todo.pop(), set()) & part - own
            own |= more
            todo += more
        return own

    def _is_skipped(self, name: str) -> bool:
        return any(event.frame_skipped for event in self._breaks.get(name, ()))

    def _is_certain(self, part: Set[str]) -> bool:
        """Whether these segments, taken together, hold what is said of them."""
        once = self._again.isdisjoint(part) and not any(self._is_skipped(one) for one in part)
        return once and all(self._only_there(one) for one in part)

    def _only_there(self, name: str) -> bool:
        """Whether a segment's calls are those from where it has become part of another one."""
        callers = [one for one, called in self._called.items() if name in called]
        known = sum(self._calls[one] for one in callers)
        return not callers or self._calls[name] <= known
