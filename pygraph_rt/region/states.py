"""The life of a region: its states, what changes them, and the lock that guards them.

A region begins in OBSERVE. A graph comes from one thread at a time (see `Claim`), without a lock
held: other threads run compiled code or graphs that exist meanwhile, and may end the region's life
in the middle of a capture. The capturing thread learns of that by the event that comes next, which
the table rejects, and frees what it has made.
"""

from __future__ import annotations

import enum
import threading
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

T = TypeVar("T")


class State(enum.Enum):
    """What a region does with calls; the value is what reports show."""

    OBSERVE = "observing"  # no graph yet: compiled code runs
    CAPTURE = "capturing"  # a thread is making a graph
    VERIFY = "verifying"  # that thread compares the graph's first call with compiled code
    SERVE = "serving"  # at least one kind of call has a graph
    DISMISSED = "no graph"  # selection has chosen compiled code
    RETIRED = "refused"  # no graph can be proven right, or none is wanted
    RELEASED = "released"  # Dynamo was reset


class Event(enum.Enum):
    """What happens to a region."""

    BEGIN = "a thread begins to capture"
    CAPTURED = "it has a graph"
    ACCEPT = "the graph's first call was right"
    ABANDON = "no graph came of it, and there is no other one"
    RESUME = "no graph came of it, others serve on"
    FREED = "the last graph is gone"
    DISMISS = "selection chooses compiled code"
    REOPEN = "selection wants graphs"
    RETIRE = "the region is refused"
    RELEASE = "Dynamo is reset"


_ENDS = {Event.DISMISS: State.DISMISSED, Event.RETIRE: State.RETIRED, Event.RELEASE: State.RELEASED}

TRANSITIONS: Mapping[State, Mapping[Event, State]] = MappingProxyType(
    {
        State.OBSERVE: {Event.BEGIN: State.CAPTURE, Event.REOPEN: State.OBSERVE, **_ENDS},
        State.CAPTURE: {
            Event.BEGIN: State.CAPTURE,  # the thread before was interrupted
            Event.CAPTURED: State.VERIFY,
            Event.ABANDON: State.OBSERVE,
            Event.RESUME: State.SERVE,
            Event.FREED: State.CAPTURE,
            Event.REOPEN: State.CAPTURE,
            **_ENDS,
        },
        State.VERIFY: {
            Event.BEGIN: State.CAPTURE,
            Event.ACCEPT: State.SERVE,
            Event.ABANDON: State.OBSERVE,
            Event.RESUME: State.SERVE,
            Event.FREED: State.VERIFY,
            Event.REOPEN: State.VERIFY,
            **_ENDS,
        },
        State.SERVE: {
            Event.BEGIN: State.CAPTURE,
            Event.FREED: State.OBSERVE,
            Event.REOPEN: State.SERVE,
            **_ENDS,
        },
        State.DISMISSED: {Event.REOPEN: State.OBSERVE, **_ENDS},
        State.RETIRED: {Event.RETIRE: State.RETIRED, Event.RELEASE: State.RELEASED},
        State.RELEASED: {Event.RELEASE: State.RELEASED},
    }
)
"""The state that follows; an event that is not there is rejected, and changes nothing."""

CLOSED = frozenset({State.DISMISSED, State.RETIRED, State.RELEASED})
"""States without graphs, whose calls run compiled code without another look."""


class Claim:
    """Something that one call at a time may have, which nobody waits for.

    It belongs to a token on the stack of the call, and is free again when that is given back or no
    longer exists: an exception between any two instructions of the holder leaves nothing locked.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Callable[[], _Token | None] = _nobody

    def run(self, action: Callable[[], T], otherwise: Callable[[], T]) -> T:
        """Do `action` while nobody else has it; `otherwise` where somebody has."""
        token = _Token()
        try:
            with self._lock:
                if self._holder() is None:
                    self._holder = weakref.ref(token)
            if self._holder() is token:
                return action()
        finally:
            with self._lock:
                if self._holder() is token:
                    self._holder = _nobody
        return otherwise()


class _Token:
    """Whoever holds a `Claim`."""


def _nobody() -> None:
    return None


class Life:
    """A region's state. closed: calls run compiled code without another look. may_capture: whether
    a graph may be made. preparing: held by the thread that prepares one. lock: guards the state and
    all that changes with it; nothing is called under it that takes another lock but that of a
    graph, runs generated code or waits for the GPU.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.preparing = Claim()
        self.state = State.OBSERVE
        self.may_capture = True
        self.closed = False
        self._paused = False

    def apply(self, event: Event) -> bool:
        """Change the state; False where the event is rejected. The caller holds `lock`."""
        after = TRANSITIONS[self.state].get(event)
        if after is None:
            return False
        self.state = after
        self.pause(self._paused)
        return True

    def pause(self, paused: bool) -> None:
        """Close it for now, whatever its state is, or no longer. The caller holds `lock`."""
        self._paused = paused
        self.closed = paused or self.state in CLOSED
