"""An editor that measures: pygls' own client, over stdin and stdout of the server."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from lsprotocol import types
from pygls.lsp.client import LanguageClient

from pygraph_lint import __version__


class Editor:
    """A client with one folder open. Times are of ``time.perf_counter``."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.shown: dict[tuple[str, int], tuple[float, tuple[types.Diagnostic, ...]]] = {}
        self.progress: list[tuple[float, str]] = []
        self._arrived = asyncio.Condition()
        self._versions: dict[str, int] = {}
        self._memory: list[int] = []

    def register(self) -> None:
        """Listen to what the server says by itself."""

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def publish(params: types.PublishDiagnosticsParams) -> None:
            found = (time.perf_counter(), tuple(params.diagnostics))
            self.shown[params.uri, params.version or 0] = found
            async with self._arrived:
                self._arrived.notify_all()

        @self.client.feature(types.WINDOW_WORK_DONE_PROGRESS_CREATE)
        def create(params: types.WorkDoneProgressCreateParams) -> None:
            """Allow it."""

        @self.client.feature(types.PROGRESS)
        def progress(params: types.ProgressParams) -> None:
            self.progress.append((time.perf_counter(), str(params.value)))

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def message(params: types.ShowMessageParams) -> None:
            print(f"the server says: {params.message}", file=sys.stderr)

    def uri(self, name: str) -> str:
        """The URI of a file of the folder."""
        return (self.folder / name).as_uri()

    def document(self, name: str) -> types.TextDocumentIdentifier:
        """A file of the folder in the protocol's terms."""
        return types.TextDocumentIdentifier(self.uri(name))

    def open(self, name: str) -> float:
        """Open a file; the time."""
        self._versions[name] = 1
        text = (self.folder / name).read_text()
        item = types.TextDocumentItem(self.uri(name), types.LanguageKind.Python, 1, text)
        started = time.perf_counter()
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return started

    def close(self, name: str) -> None:
        """Close a file."""
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(self.document(name)))

    def change(self, edit: dict[str, Any]) -> float:
        """Make an edit; the time."""
        name = edit["file"]
        self._versions[name] += 1
        where = types.Range(types.Position(*edit["start"]), types.Position(*edit["end"]))
        params = types.DidChangeTextDocumentParams(
            types.VersionedTextDocumentIdentifier(self._versions[name], self.uri(name)),
            [types.TextDocumentContentChangePartial(where, edit["text"])],
        )
        started = time.perf_counter()
        self.client.text_document_did_change(params)
        return started

    def version(self, name: str) -> tuple[str, int]:
        """The key of what is shown of a file's newest version."""
        return self.uri(name), self._versions[name]

    async def diagnostics(
        self, name: str, after: float = 0.0, seconds: float = 300.0
    ) -> tuple[float, tuple[types.Diagnostic, ...]] | None:
        """When diagnostics of the newest version came, and which; None if not in time."""
        end = time.perf_counter() + seconds
        key = self.version(name)
        while key not in self.shown or self.shown[key][0] < after:
            left = end - time.perf_counter()
            if left <= 0:
                return None
            async with self._arrived:
                try:
                    await asyncio.wait_for(self._arrived.wait(), min(left, 0.5))
                except asyncio.TimeoutError:
                    continue
        return self.shown[key]

    def processes(self) -> list[psutil.Process]:
        """The processes of the server."""
        server = psutil.Process(self.client._server.pid)  # type: ignore[union-attr]
        return [server, *server.children(recursive=True)]

    def memory(self) -> int:
        """Memory of all processes together, bytes: what they share is counted once."""
        found = [process.memory_full_info() for process in self.processes()]
        return sum(getattr(full, "pss", full.uss) for full in found)

    def cpu(self) -> float:
        """CPU seconds of all processes so far."""
        times = [process.cpu_times() for process in self.processes()]
        return sum(one.user + one.system for one in times)


@asynccontextmanager
async def editor(folder: Path, cache: Path) -> AsyncIterator[Editor]:
    """An editor with a folder open, and a server that keeps its facts in ``cache``."""
    client = LanguageClient("pygraph-bench", __version__)
    made = Editor(client, folder)
    made.register()
    environment = {**os.environ, "PYGRAPH_LINT_CACHE_DIR": str(cache)}
    await client.start_io(sys.executable, "-m", "pygraph_lint", "server", env=environment)
    about = types.ClientCapabilities(
        window=types.WindowClientCapabilities(work_done_progress=True),
        text_document=types.TextDocumentClientCapabilities(
            code_action=types.CodeActionClientCapabilities(
                resolve_support=types.ClientCodeActionResolveOptions(["edit"])
            )
        ),
        workspace=types.WorkspaceClientCapabilities(
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=True)
        ),
    )
    await client.initialize_async(
        types.InitializeParams(
            about, workspace_folders=[types.WorkspaceFolder(folder.as_uri(), folder.name)]
        )
    )
    client.initialized(types.InitializedParams())
    yield made
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()
