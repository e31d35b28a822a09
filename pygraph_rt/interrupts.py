"""What an exception at any moment, such as Ctrl-C, must not leave behind: held locks, and what was
begun and not ended.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from threading import RLock
from typing import Any

__all__ = ["RLock", "release", "to_the_end"]

# So often is something begun again; exceptions that come faster than it ends are not outlasted.
_TRIES = 100


def release(lock: Any) -> None:
    """Release an RLock if this thread still holds it: an exception between the end of a `with`
    block's body and its exit skips the exit.
    """
    if lock._is_owned():
        lock.release()


def to_the_end(undo: Callable[[], object]) -> None:
    """Run `undo` while an exception is handled, also if more come in the middle of it: it is run
    again, and has to bear that at any moment. Those exceptions are lost; the first one goes on.
    """
    for _ in range(_TRIES):
        with contextlib.suppress(BaseException):
            undo()
            return
