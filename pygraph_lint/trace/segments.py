"""The compiled segments of one trace, and how many graphs they hold once some breaks are fixed.

A function that breaks is compiled in segments: up to the first break, from there to the next one,
and so on. Where the break is in a function that it calls, the called function is compiled in
segments of its own. A segment holds one graph for each time it was compiled, or none where it does
nothing with tensors. When every break behind which a segment begins is fixed, it becomes a part of
the segment before the break.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Set

from pygraph_lint.trace.document import Event, Frame, Trace

_ENDS = ("graph_break", "skipped_frame", "compile_error")
_AGAIN = ("recompile", "cache_limit")


def _segment(compile_id: str) -> str:
    """The part of torch's number that all compilations of one piece of code share."""
    return compile_id.partition("/")[0]


class Segments:
    """What was compiled in one trace. A segment is named by torch's number."""

    def __init__(self, trace: Trace) -> None:
        self._calls: Counter[str] = Counter()
        for region in trace.regions:
            self._calls[_segment(region.compile_id)] += region.calls
        self._sites: defaultdict[str, list[set[str]]] = defaultdict(list)
        self._graphs = Counter(_segment(r.compile_id) for r in trace.regions if r.compile_id)
        # Of code that was compiled before tracing began nothing is known.
        self._more = sum(not region.compile_id for region in trace.regions)
        self._breaks: defaultdict[str, list[Event]] = defaultdict(list)
        self._at: defaultdict[tuple[Frame, ...], set[str]] = defaultdict(set)
        self._again: set[str] = set()
        frames = {(_segment(r.compile_id), r.frame) for r in trace.regions if r.compile_id}
        for event in trace.events:
            names = {_segment(one) for one in event.compile_ids}
            frames |= {(name, event.frame) for name in names if event.frame is not None}
            self._again |= names if event.kind in _AGAIN else set()
            if event.kind in _ENDS:
                self._at[event.stack] |= names
                for name in names:
                    self._breaks[name].append(event)
        frames |= {(_segment(one.compile_id), one.frame) for one in trace.compilations}
        self._frames = dict(frames)
        self._parents, self._called = self._links(trace)
        self._fixed: set[str] = set()

    def _links(self, trace: Trace) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """The segments that each one continues, and those that call it."""
        of: defaultdict[Frame | None, set[str]] = defaultdict(set)
        for name, frame in self._frames.items():
            of[frame].add(name)
        callers: defaultdict[str, set[Frame | None]] = defaultdict(set)
        for one in trace.compilations:
            callers[_segment(one.compile_id)].add(one.called_by)
        parents: defaultdict[str, set[str]] = defaultdict(set)
        called: defaultdict[str, set[str]] = defaultdict(set)
        for stack, names in self._at.items():
            for name in of.get(stack[0], ()):
                parents[name] |= names - {name}
            for name in self._at.get(stack[1:], ()):
                called[name] |= names - {name}
                self._sites[name].append(names)
        for name in self._frames.keys() - parents.keys():
            for caller in callers[name]:
                # "" is a program that calls it outside of everything that was compiled.
                called[name] |= (of.get(caller, set()) - {name}) if caller else {""}
        return parents, called

    def fix(self, event: Event) -> None:
        """From now on this break is gone."""
        self._fixed.add(event.name)

    def count(self) -> tuple[int, bool]:
        """How many graphs there are, and whether that is certain."""
        graphs, certain = self._more, True
        whole = {name for name in self._breaks if self._is_whole(name, frozenset())}
        gone = {name for name in self._frames if self._is_gone(name, whole)}
        for name in self._frames.keys() - gone:
            line = {name, *self._behind(name, gone, self._parents)}
            everything = set(line)
            for one in line:
                everything |= {*self._behind(one, gone, self._parents, self._called)}
            most = max(self._graphs[one] for one in line)
            graphs += most or any(self._graphs[one] for one in everything)
            if len(everything) > 1:
                again = not self._again.isdisjoint(everything)
                given_up = any(
                    e.frame_skipped for one in everything for e in self._breaks.get(one, ())
                )
                inside = all(self._only_there(one) for one in everything - line)
                certain = certain and inside and not again and not given_up
        return graphs, certain

    def _only_there(self, name: str) -> bool:
        """Whether a segment's calls are those from where it has become part of another one."""
        known = sum(self._calls[one] for names in self._sites.get(name, ()) for one in names)
        return name not in self._sites or self._calls[name] <= known

    def _is_whole(self, name: str, seen: Set[str]) -> bool:
        """Whether all breaks of a segment are fixed, those of functions that it calls included."""
        for event in self._breaks.get(name, ()):
            if event.name not in self._fixed:
                return False
            inner = self._at.get(event.stack[1:], set()) if len(event.stack) > 1 else set()
            for one in inner - seen:
                around = seen | {name, one}
                behind = self._behind(one, set(self._frames), self._parents)
                if not all(self._is_whole(each, around) for each in {one, *behind}):
                    return False
        return True

    def _is_gone(self, name: str, whole: Set[str]) -> bool:
        """Whether a segment has become part of others, wherever it is reached from."""
        before = self._parents.get(name, set()) | self._called.get(name, set())
        return bool(before) and before <= whole

    def _behind(self, name: str, among: Set[str], *links: dict[str, set[str]]) -> Iterator[str]:
        """Segments among those given that are reached from one, near or far."""
        found, todo = {name}, [name]
        while todo:
            last = todo.pop()
            for one in among - found:
                if any(last in link.get(one, ()) for link in links):
                    found.add(one)
                    todo.append(one)
                    yield one
