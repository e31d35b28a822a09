"""Keeps a worker process running for the front: starts it, hears it, and starts it again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from pygraph_lint.server import messages as m

COMMAND = (sys.executable, "-m", "pygraph_lint.server.worker")
# So many ends without a word within so many seconds: it is not started again.
_TRIES, _WITHIN = 5, 60.0


class Supervisor:
    """The worker process.

    ``heard`` is given each message, ``started`` is called when there is a new process, to which
    everything has to be said, and ``ended`` with how one ended by itself and whether there will be
    another.
    """

    def __init__(
        self,
        heard: Callable[[m.FromWorker], None],
        started: Callable[[], None],
        ended: Callable[[str, bool], None],
    ) -> None:
        self._heard = heard
        self._started = started
        self._ended = ended
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._ends: list[float] = []
        self._closing = False
        self._asked_to_end = False

    @property
    def pid(self) -> int | None:
        """The process id of the worker, while there is one."""
        return self._process.pid if self._process is not None else None

    async def start(self) -> None:
        """Start the worker, unless there is one."""
        if self._closing or self._process is not None:
            return
        self._process = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self._task = asyncio.get_running_loop().create_task(self._listen(self._process))
        self._started()

    async def restart(self) -> None:
        """End the worker, if there is one, and start another."""
        self._ends = []
        if self._process is None:
            await self.start()
        else:
            self._asked_to_end = True
            self._kill()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    def send(self, message: m.ToWorker) -> None:
        """Say something to the worker; lost if there is none at the moment."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):
                self._process.stdin.write(m.packed(message))

    def stop(self) -> None:
        """End the worker for good."""
        self._closing = True
        self._kill()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        stream = process.stdout
        assert stream is not None
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await stream.readexactly(m.HEADER)
                self._heard(m.unpacked(await stream.readexactly(m.length(header))))
        code = await process.wait()
        if self._closing:
            return
        self._process = None
        if self._asked_to_end:
            self._asked_to_end = False
            await self.start()
            return
        now = monotonic()
        self._ends = [*(end for end in self._ends if now - end < _WITHIN), now]
        again = len(self._ends) <= _TRIES
        self._ended(f"signal {-code}" if code < 0 else f"exit code {code}", again)
        if again:
            await self.start()
