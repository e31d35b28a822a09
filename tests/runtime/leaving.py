"""Ranks that leave a job together."""

from __future__ import annotations

import time
from typing import Any


def meet(store: Any, place: str, ranks: int) -> None:
    """Wait until all ranks are here: who closes a group's connections earlier resets those of ranks
    that still read from them.
    """
    store.add(f"{place}: here", 1)
    while store.add(f"{place}: here", 0) < ranks:
        time.sleep(0.02)


def leave(store: Any, rank: int, ranks: int) -> None:
    """Meet for the last time: rank 0, which serves the store, leaves last."""
    meet(store, "end", ranks)
    store.add("left", 1)
    while rank == 0 and store.add("left", 0) < ranks:
        time.sleep(0.02)
