"""Executables of one graph for several sets of weights.

Equal layers share a region, and so a graph: it is called with the weights of each layer in turn,
and on each call nearly all of its nodes are patched. Each layer's activations are mostly where they
were in the step before. So each set of weights gets an executable of its own, whose nodes stay as
they are, if that makes launches faster; measured on the program's own calls.

Calls are watched first. An input tells the sets apart where its few addresses come again and again,
and with each of them most other addresses, too.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from pygraph_rt.errors import DriverError
from pygraph_rt.replay.patch import Patcher

LOOK_AT = 64
"""Launches after which it is looked whether a graph's nodes are patched often."""
_MANY = 8  # nodes that are patched on each launch
_WATCHED = 256  # launches that are looked at, and as many that are timed
_MOST_SETS = 64
_MOST_WAYS = 16  # ways to tell sets apart that are compared
_SEEN = 3  # calls of each set among those that are watched
_FEWER, _FASTER = 0.5, 0.9  # nodes that would be patched; time of a launch with what is made


class Executables(NamedTuple):
    """What makes an executable with the parameters in use, and frees those that were made but the
    first. `room` is for how many more there is memory.
    """

    add: Callable[[], int]
    free: Callable[[], None]
    room: Callable[[], int]


class WeightSets:
    """Launches a graph whose nodes are patched often, and finds out whether one executable for each
    set of weights is faster. `launch` is as a patcher's. `done` is called with what launches from
    then on.
    """

    def __init__(
        self,
        patcher: Patcher,
        inputs: Sequence[int],
        nodes: Sequence[int],
        executables: Executables,
        done: Callable[[Callable[[int], int]], None],
    ) -> None:
        """`inputs` are the places of inputs among the patcher's addresses, `nodes` says how many
        nodes hold each of those addresses.
        """
        self._patcher: Any = patcher
        self._inputs, self._nodes = inputs, nodes
        self._executables: Any = executables
        self._done: Any = done
        self._first = patcher.current()
        self._sets: dict[int, Any] = {}
        self._rows: list[array[int]] = []
        self._spent: list[int] = []
        self._before = 0.0
        self._place = 0
        self._step = self._watch

    def launch(self, stream: int) -> int:
        """See above."""
        return self._step(stream)

    def _timed(self, stream: int) -> int:
        started = time.perf_counter_ns()
        code: int = self._patcher.launch(stream)
        self._spent.append(time.perf_counter_ns() - started)
        return code

    def _watch(self, stream: int) -> int:
        code = self._timed(stream)
        self._rows.append(self._patcher.addresses[:])
        if len(self._rows) >= _WATCHED and not code:
            place = best_place(np.array(self._rows, np.uint64), self._inputs, self._nodes)
            self._before, self._rows, self._spent = median(self._spent), [], []
            if place is None:
                self._stop()
            else:
                self._place, self._step = place, self._try
        return code

    def _try(self, stream: int) -> int:
        """Launch with the set's own executable, or make one for the next time."""
        address = self._patcher.addresses[self._place]
        target = self._sets.get(address)
        self._patcher.use(self._first if target is None else target)
        code = self._timed(stream)
        if target is None and not code:
            self._spent = []
            if len(self._sets) == _MOST_SETS or self._executables.room() < 1:
                self._stop()
                return code
            try:
                self._sets[address] = self._patcher.target(self._executables.add())
            except DriverError:
                self._stop()
        elif len(self._spent) >= _WATCHED and not code:
            if median(self._spent) > _FASTER * self._before:
                self._stop()
            else:
                self._end(self._of_set)
        return code

    def _of_set(self, stream: int) -> int:
        """Launch with the set's own executable; another set than those known has the first one."""
        patcher = self._patcher
        patcher.use(self._sets.get(patcher.addresses[self._place], self._first))
        code: int = patcher.launch(stream)
        return code

    def _stop(self) -> None:
        """All calls have one executable."""
        self._patcher.use(self._first)
        self._sets = {}
        self._executables.free()
        self._patcher.forget_others()
        self._end(self._patcher.launch)

    def _end(self, launch: Callable[[int], int]) -> None:
        self._done(launch)
        self._done = self._executables = None  # which refer to this


def patched_often(patched: int, launches: int) -> bool:
    """Whether so many nodes that were patched in all are worth to be looked at."""
    return patched >= _MANY * launches


def best_place(rows: Any, inputs: Sequence[int], nodes: Sequence[int]) -> int | None:
    """The place of the input that tells sets of weights apart; None without one that halves the
    nodes that are patched. `rows` are the addresses of calls in order, an array of two dimensions.
    """
    weights = np.asarray(nodes, np.int64)
    least = _FEWER * _patched(rows, np.zeros(len(rows), np.int64), weights)
    best, seen = None, set[bytes]()
    for place in inputs:
        found, sets = np.unique(rows[:, place], return_inverse=True)
        if not 2 <= len(found) <= min(_MOST_SETS, len(rows) // _SEEN):
            continue
        _, first = np.unique(sets, return_index=True)
        alike = np.argsort(np.argsort(first))[sets].tobytes()  # numbered in the order of calls
        if alike in seen:
            continue
        if len(seen) == _MOST_WAYS:
            break
        seen.add(alike)
        patched = _patched(rows, sets, weights)
        if patched <= least:
            least, best = patched, place
    return best


def _patched(rows: Any, sets: Any, weights: Any) -> float:
    """Nodes that are patched in all, if each set has an executable: those of addresses that differ
    from those of the set's call before.
    """
    order = np.argsort(sets, kind="stable")
    rows, sets = rows[order], sets[order]
    again = sets[1:] == sets[:-1]
    return float(((rows[1:] != rows[:-1]) & again[:, None]).sum(0) @ weights)
