"""What the server can do, registered by the protocol's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lsprotocol import types

from pygraph_lint.server import messages as m
from pygraph_lint.server import shown
from pygraph_lint.server.actions import KINDS, Actions
from pygraph_lint.server.front import SETTINGS_FILES, Front
from pygraph_lint.server.texts import path_of

_WATCHED = ("**/*.{py,ipynb}", "**/trace*.json", *(f"**/{name}" for name in SETTINGS_FILES))
_SOON = 0.1
SHOW = "pygraph-lint.showFinding"
RESTART = "pygraph-lint.restart"


def server() -> Front:
    """A server with all of its features."""
    made = Front()
    _session(made)
    _files(made)
    _questions(made)
    _actions(made)
    return made


def _session(server: Front) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.begin(params)

    @server.feature(types.INITIALIZED)
    async def initialized(params: types.InitializedParams) -> None:
        await server.worker.start()
        await _watch(server)

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.worker.stop()

    @server.feature(types.EXIT)
    def exit(params: None) -> None:
        server.leave()

    @server.command(RESTART)
    async def restart() -> None:
        await server.worker.restart()


async def _watch(server: Front) -> None:
    """Have the editor say what changes on the disk, where it can."""
    workspace = server.client_capabilities.workspace
    watching = workspace.did_change_watched_files if workspace is not None else None
    if watching is None or not watching.dynamic_registration:
        return
    watchers = [types.FileSystemWatcher(pattern) for pattern in _WATCHED]
    options = types.DidChangeWatchedFilesRegistrationOptions(watchers)
    await server.client_register_capability_async(
        types.RegistrationParams(
            [
                types.Registration(
                    "pygraph-lint-files", types.WORKSPACE_DID_CHANGE_WATCHED_FILES, options
                )
            ]
        )
    )


def _files(server: Front) -> None:
    def saved_at(uri: str) -> None:
        path = path_of(uri)
        if path is not None:
            server.worker.send(m.Saved(path))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        saved_at(params.text_document.uri)
        if server.settings_changed():  # for editors that do not watch files
            server.set_up()

    @server.feature(types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def notebook_saved(params: types.DidSaveNotebookDocumentParams) -> None:
        saved_at(params.notebook_document.uri)

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def watched(params: types.DidChangeWatchedFilesParams) -> None:
        found = (path_of(change.uri) for change in params.changes)
        paths = [path for path in found if path is not None]
        if any(path.name in SETTINGS_FILES for path in paths):
            server.set_up()
        else:
            server.worker.send(m.OnDisk(tuple(paths)))

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        given: Any = params.settings
        mine = given.get("pygraph-lint") if isinstance(given, dict) else None
        if isinstance(mine, dict):
            server.options = {**server.options, **mine}
            server.set_up()

    @server.feature(types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS)
    def folders(params: types.DidChangeWorkspaceFoldersParams) -> None:
        removed = {path_of(folder.uri) for folder in params.event.removed}
        added = [path_of(folder.uri) for folder in params.event.added]
        kept: list[Path] = [path for path in server.folders if path not in removed]
        server.folders = kept + [path for path in added if path is not None]
        server.set_up()


def _actions(server: Front) -> None:
    actions = Actions(server)

    @server.feature(
        types.TEXT_DOCUMENT_CODE_ACTION,
        types.CodeActionOptions(code_action_kinds=KINDS, resolve_provider=True),
    )
    async def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        return await actions.listed(params)

    @server.feature(types.CODE_ACTION_RESOLVE)
    async def resolve(params: types.CodeAction) -> types.CodeAction:
        return await actions.resolved(params)


def _questions(server: Front) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hover(params: types.HoverParams) -> types.Hover | None:
        uri = params.text_document.uri
        document = server.files.of(uri)
        if document is None:
            return None
        rows = await server.fresh(document, _SOON)
        place = document.place(uri, params.position)
        here = shown.at(rows or (), place, place)
        if not here:
            return None
        text = shown.hover(here)
        where = document.range(here[0][1].start, here[0][1].end)[1]
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text), where)

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS)
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        document = server.files.of(uri)
        if document is None:
            return []
        made = []
        for lens in server.lenses.get(document.path, ()):
            where, at = document.range((lens.row, 1), (lens.row, 1))
            if where == uri:
                place = types.Position(lens.place[0] - 1, 0)
                target = [lens.path.as_uri(), place]
                made.append(types.CodeLens(at, types.Command(lens.title, SHOW, arguments=target)))
        return made

    @server.command(SHOW)
    async def show(uri: str, place: types.Position) -> None:
        await server.window_show_document_async(
            types.ShowDocumentParams(uri, take_focus=True, selection=types.Range(place, place))
        )
