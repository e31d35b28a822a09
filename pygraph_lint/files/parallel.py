"""Work spread over processes, where there is enough of it."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

CAN_FORK = sys.platform == "linux"


def chunks(items: Sequence[T], weight: Callable[[T], int], limit: int) -> list[list[T]]:
    """``items`` in order, cut into lists of about ``limit`` weight each."""
    parts: list[list[T]] = []
    total = limit
    for item in items:
        if total >= limit:
            parts.append([])
            total = 0
        parts[-1].append(item)
        total += weight(item)
    return parts


def spread(
    function: Callable[[T], R],
    tasks: Sequence[T],
    jobs: int,
    setup: Callable[..., None],
    *given: Any,
) -> Iterator[R]:
    """``function`` of each task, in no certain order, by up to ``jobs`` processes.

    ``setup(*given)`` runs first in every process, and here when the work is done in this one.
    """
    if jobs <= 1 or len(tasks) <= 1:
        setup(*given)
        yield from map(function, tasks)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed

    context = multiprocessing.get_context("fork" if CAN_FORK else "spawn")
    executor = ProcessPoolExecutor(
        min(jobs, len(tasks)), context, initializer=_start, initargs=(setup, *given)
    )
    try:
        for future in as_completed([executor.submit(function, task) for task in tasks]):
            yield future.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _start(setup: Callable[..., None], *given: Any) -> None:
    # Ctrl-C reaches every process of the terminal; a worker then ends without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    setup(*given)


@contextmanager
def without_collecting() -> Iterator[None]:
    """Leave the garbage collector out: while many objects are made, it looks at all of them for
    nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
