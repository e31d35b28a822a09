"""A progress bar in the editor while much is read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from lsprotocol import types

if TYPE_CHECKING:
    from pygraph_lint.server.front import Front

_PATIENCE = 0.3  # seconds before anything is shown
_TITLE = "pygraph-lint: reading the project"


class Progress:
    """One bar at a time; nothing where the editor shows none."""

    def __init__(self, server: Front) -> None:
        self._server = server
        self._count = 0
        self._token: str | None = None
        self._begun = False
        self._last = (0, 0)

    @property
    def reading(self) -> bool:
        """Whether the project is being read."""
        return self._token is not None

    def show(self, done: int, total: int) -> None:
        """Say how far it is; the first time begins a bar."""
        self._last = (done, total)
        if self._token is None:
            self._count += 1
            self._token = f"pygraph-lint-{self._count}"
            window = self._server.client_capabilities.window
            if window is not None and window.work_done_progress:
                self._task = asyncio.ensure_future(self._create(self._token))
        elif self._begun:
            self._send(self._token, types.WorkDoneProgressReport(**self._where()))

    async def _create(self, token: str) -> None:
        await asyncio.sleep(_PATIENCE)
        if token != self._token:
            return
        params = types.WorkDoneProgressCreateParams(token)
        await self._server.window_work_done_progress_create_async(params)
        if token == self._token:
            self._begun = True
            self._send(token, types.WorkDoneProgressBegin(_TITLE, **self._where()))

    def _where(self) -> dict[str, Any]:
        done, total = self._last
        if not total:
            return {}
        return {"message": f"{done}/{total} files", "percentage": 100 * done // total}

    def end(self) -> None:
        """Nothing is read any more."""
        if self._token is not None and self._begun:
            self._send(self._token, types.WorkDoneProgressEnd())
        self._token, self._begun = None, False

    def _send(self, token: str, value: object) -> None:
        self._server.progress(types.ProgressParams(token, value))
