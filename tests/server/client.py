"""An editor: a real client over stdin and stdout of the server."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
from lsprotocol import types
from pygls.protocol import default_converter
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 20.0


class Editor:
    """A client with a folder open, and what the server has told it."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.published: list[types.PublishDiagnosticsParams] = []
        self._arrived = asyncio.Condition()
        self._versions: dict[str, int] = {}
        self.refreshed = 0

        @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        async def publish(params: types.PublishDiagnosticsParams) -> None:
            self.published.append(params)
            async with self._arrived:
                self._arrived.notify_all()

        @client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            self.registered = params.registrations

        @client.feature(types.WORKSPACE_CODE_LENS_REFRESH)
        def refresh(params: None) -> None:
            self.refreshed += 1

    # --- what the user does ---

    def uri(self, name: str) -> str:
        """The URI of a file in the folder."""
        return (self.folder / name).as_uri()

    async def open(self, name: str, text: str | None = None) -> list[types.Diagnostic]:
        """Open a file; gives what is shown of it."""
        self.open_now(name, text)
        return await self.shown(name)

    def open_now(self, name: str, text: str | None = None) -> None:
        """Open a file, without waiting."""
        if text is None:
            text = (self.folder / name).read_bytes().decode()
        self._versions[name] = 1
        item = types.TextDocumentItem(self.uri(name), types.LanguageKind.Python, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, name: str, *changes: types.TextDocumentContentChangeEvent) -> int:
        """Change a file; the version it then has."""
        self._versions[name] += 1
        version = self._versions[name]
        self.client.text_document_did_change(
            types.DidChangeTextDocumentParams(
                types.VersionedTextDocumentIdentifier(version, self.uri(name)), list(changes)
            )
        )
        return version

    async def write(self, name: str, text: str) -> list[types.Diagnostic]:
        """Replace the whole text of an open file; gives what is shown of it."""
        self.change(name, types.TextDocumentContentChangeWholeDocument(text))
        return await self.shown(name)

    def close(self, name: str) -> None:
        """Close a file."""
        self.client.text_document_did_close(
            types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(self.uri(name)))
        )

    def save(self, name: str, text: str) -> None:
        """Write a file to the disk, and say so."""
        (self.folder / name).write_text(text)
        self.client.text_document_did_save(
            types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(self.uri(name)))
        )

    def changed_on_disk(self, *names: str) -> None:
        """Say that files are not what they were."""
        changes = [types.FileEvent(self.uri(n), types.FileChangeType.Changed) for n in names]
        self.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams(changes))

    # --- what the user sees ---

    async def until(self, condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
        """Wait until a condition holds, which is asked when something arrives; gives its value."""
        end = time.monotonic() + seconds
        while not (value := condition()):
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError("it never came true")
            async with self._arrived:
                try:
                    await asyncio.wait_for(self._arrived.wait(), min(left, 0.2))
                except asyncio.TimeoutError:
                    continue
        return value

    async def shown(self, name: str) -> list[types.Diagnostic]:
        """The diagnostics of the newest version of a file, when they are there."""
        uri, version = self.uri(name), self._versions[name]

        def found() -> types.PublishDiagnosticsParams | None:
            mine = [one for one in self.published if one.uri == uri and one.version == version]
            return mine[-1] if mine else None

        return list((await self.until(found)).diagnostics)

    async def actions(
        self, name: str, where: types.Range, only: Sequence[types.CodeActionKind | str] = ()
    ) -> list[types.CodeAction]:
        """What can be done at a place."""
        document = types.TextDocumentIdentifier(self.uri(name))
        context = types.CodeActionContext([], list(only) or None)
        given = await self.client.text_document_code_action_async(
            types.CodeActionParams(document, where, context)
        )
        return [one for one in given or () if isinstance(one, types.CodeAction)]

    async def lenses(self, name: str) -> list[tuple[int, str]]:
        """The lines over functions: rows from 1, and titles."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(self.uri(name)))
        given = await self.client.text_document_code_lens_async(params)
        return sorted((one.range.start.line + 1, one.command.title) for one in given or ())  # type: ignore[union-attr]

    async def edit_of(self, action: types.CodeAction) -> types.WorkspaceEdit | None:
        """The edit of an action that was chosen."""
        if action.edit is None:
            action = await self.client.code_action_resolve_async(action)
        return action.edit

    async def hover(self, name: str, position: types.Position) -> str:
        """What is shown beside the pointer; empty where nothing is."""
        document = types.TextDocumentIdentifier(self.uri(name))
        given = await self.client.text_document_hover_async(types.HoverParams(document, position))
        return given.contents.value if given is not None else ""  # type: ignore[union-attr]

    def processes(self) -> list[psutil.Process]:
        """The processes of the server."""
        server = psutil.Process(self.client._server.pid)
        return [server, *server.children(recursive=True)]


def code_of(found: Sequence[types.Diagnostic]) -> list[tuple[str, int]]:
    """Codes and lines (from 1) of diagnostics, in order."""
    return [(str(one.code), one.range.start.line + 1) for one in found]


def environment() -> dict[str, str]:
    """That of the tests, with this repository on the path."""
    paths = os.pathsep.join(filter(None, [str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": paths}


@asynccontextmanager
async def editor(
    folder: Path,
    *others: Path,
    like: str = "visual-studio-code",
    change: Callable[[types.InitializeParams], None] = lambda params: None,
    leave: bool = True,
) -> AsyncIterator[Editor]:
    """An editor with folders open, ``like`` a certain one; it ends the server at the end."""
    client = LanguageClient(converter_factory=default_converter)
    features = dict(DEFAULT_CLIENT_FEATURES)
    del features[types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS]
    register_lsp_features(client, features)
    made = Editor(client, folder)
    command = [sys.executable, "-m", "pygraph_lint", "server"]
    await client.start_io(*command, env=environment())
    folders = [types.WorkspaceFolder(one.as_uri(), one.name) for one in (folder, *others)]
    params = types.InitializeParams(
        client_capabilities(like), root_uri=folder.as_uri(), workspace_folders=folders
    )
    change(params)
    done = False
    try:
        made.initialized = await client.initialize_session(params)  # type: ignore[attr-defined]
        yield made
        if leave:
            await client.shutdown_session()
        done = True
    finally:
        server = client._server
        if server is not None and server.returncode is None:
            try:
                await asyncio.wait_for(server.wait(), 5 if done else 0.1)
            except asyncio.TimeoutError:
                server.kill()
        await asyncio.wait_for(client.stop(), 5)
