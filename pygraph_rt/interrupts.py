"""Locks that an exception at any moment, such as Ctrl-C, does not leave held."""

from __future__ import annotations

from threading import RLock
from typing import Any

__all__ = ["RLock", "release"]


def release(lock: Any) -> None:
    """Release an RLock if this thread still holds it: an exception between the end of a `with`
    block's body and its exit skips the exit.
    """
    if lock._is_owned():
        lock.release()
