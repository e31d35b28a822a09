"""All that a process remembers, in one place, so that tests can begin anew.

Nothing else in the package is state of a module: what is shared is a `Shared` made here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_EVERYTHING: list[Shared[Any]] = []
_MAKING = threading.RLock()


class Shared(Generic[T]):
    """A value that is made once a process, when it is first asked for."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._value: list[T] = []
        _EVERYTHING.append(self)

    def __call__(self) -> T:
        """The value."""
        if not self._value:
            with _MAKING:
                if not self._value:
                    self._value = [self._make()]
        return self._value[0]

    def forget(self) -> None:
        """Make it anew when it is asked for again."""
        self._value = []


def forget_everything() -> None:
    """Begin anew; for tests. Compiled code that is in use must not be called any more."""
    for shared in _EVERYTHING:
        shared.forget()
