"""How long calls of a compiled callable keep the GPU's stream, by events before and after them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from pygraph_rt.trace.torch_hooks import keep_out

# The first calls of a callable are measured, then one in so many: two events cost the host twenty
# microseconds.
_ALL, _EVERY = 16, 32
# Calls that the GPU may not have come to yet. More are not measured meanwhile.
_MOST_PENDING = 64


class DeviceTime:
    """Measures calls on the stream that is current, and waits for nothing.

    `begin` before a call, `end` after it with what `begin` gave. now: a recorded event; None: no
    event may be recorded.
    """

    def __init__(self, now: Callable[[], Any] | None = None) -> None:
        self._now = now or _now
        self._calls = 0
        self._measured = 0
        self._seconds = 0.0
        self._pending: deque[tuple[Any, Any]] = deque()

    def begin(self) -> Any:
        """The moment before a call; None where it is not measured."""
        number, self._calls = self._calls, self._calls + 1
        if number >= _ALL and number % _EVERY:
            return None
        self._take()
        return self._now() if len(self._pending) < _MOST_PENDING else None

    def end(self, began: Any) -> None:
        """The call is over."""
        if began is not None and (ended := self._now()) is not None:
            self._pending.append((began, ended))

    def seconds(self) -> float | None:
        """Of all calls, by the mean of those that were measured; None: of none was it known."""
        self._take()
        return self._seconds / self._measured * self._calls if self._measured else None

    def _take(self) -> None:
        """Add what the GPU is done with."""
        while self._pending:
            began, ended = self._pending.popleft()
            if not ended.query():
                self._pending.appendleft((began, ended))
                return
            self._seconds += began.elapsed_time(ended) / 1e3
            self._measured += 1


def _now() -> Any:
    cuda: Any = torch.cuda
    if not cuda.is_initialized() or cuda.is_current_stream_capturing():
        return None
    event = cuda.Event(enable_timing=True)
    event.record()
    return event


keep_out(DeviceTime.begin, callees=True)
keep_out(DeviceTime.end, callees=True)
