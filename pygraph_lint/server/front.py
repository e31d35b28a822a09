"""The process that the editor starts: holds the open texts, asks the worker, shows what it says."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from pygraph_lint import __version__
from pygraph_lint.errors import SettingsError
from pygraph_lint.files.settings import read_values
from pygraph_lint.server import messages as m
from pygraph_lint.server import shown
from pygraph_lint.server.open_files import OpenFiles
from pygraph_lint.server.supervisor import Supervisor
from pygraph_lint.server.texts import Open, path_of

_LEVELS = {
    "error": types.MessageType.Error,
    "warning": types.MessageType.Warning,
    "info": types.MessageType.Info,
}
# So often the worker may end while it looks at one text; then the text is left out.
_CRASHES = 2
# A notification of this server alone: what a trace says of the lines of a text.
MARKS = "pygraph-lint/trace"
SETTINGS_FILES = ("pyproject.toml", "pygraph-lint.toml", ".gitignore")


def _signatures(folders: Sequence[Path]) -> dict[Path, int]:
    """When the settings files at the top of folders were written."""
    found = {}
    for path in (folder / name for folder in folders for name in SETTINGS_FILES):
        with suppress(OSError):
            found[path] = path.stat().st_mtime_ns
    return found


class Protocol(LanguageServerProtocol):
    """pygls' protocol with texts held by ``OpenFiles``: pygls splits lines at more characters than
    the protocol and Python do.
    """

    _server: Front

    @lsp_method(types.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: types.DidOpenTextDocumentParams) -> None:
        self._server.take(self._server.files.opened(params.text_document))

    @lsp_method(types.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: types.DidChangeTextDocumentParams) -> None:
        self._server.take(self._server.files.changed(params.text_document, params.content_changes))

    @lsp_method(types.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: types.DidCloseTextDocumentParams) -> None:
        self._server.forget(params.text_document.uri)

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: types.DidOpenNotebookDocumentParams) -> None:
        self._server.take(self._server.files.notebook_opened(params))

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(
        self, params: types.DidChangeNotebookDocumentParams
    ) -> None:
        self._server.take(self._server.files.notebook_changed(params))

    @lsp_method(types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(
        self, params: types.DidCloseNotebookDocumentParams
    ) -> None:
        self._server.forget(params.notebook_document.uri)


class Front(LanguageServer):
    """The server as the editor sees it."""

    def __init__(self) -> None:
        super().__init__(
            "pygraph-lint",
            __version__,
            types.TextDocumentSyncKind.Incremental,
            types.NotebookDocumentSyncOptions(
                [
                    types.NotebookDocumentFilterWithCells(
                        [types.NotebookCellLanguage("python")], "jupyter-notebook"
                    )
                ],
                save=True,
            ),
            protocol_cls=Protocol,
        )
        self.files = OpenFiles()
        self.worker = Supervisor(self._hear, self._started, self._ended)
        self.folders: list[Path] = []
        self.options: dict[str, Any] = {}
        self.known: dict[Path, m.Found] = {}  # what the worker said last of each file
        self.lenses: dict[Path, tuple[m.Lens, ...]] = {}
        self._published: dict[Path, set[str]] = {}
        self._marked: set[Path] = set()
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._last_question = 0
        self._fresh: dict[Path, asyncio.Event] = {}
        self._checking: m.Checking | None = None
        self._crashes: dict[tuple[Path, int], int] = {}
        self.progress_bar = Progress(self)
        self._settings_files: dict[Path, int] = {}

    # --- the session ---

    def begin(self, params: types.InitializeParams) -> None:
        """Take what the editor says of itself and of its folders."""
        encoding = self.workspace.position_encoding
        self.files.encoding = encoding or types.PositionEncodingKind.Utf16
        given = [folder.uri for folder in params.workspace_folders or ()]
        if not given and params.root_uri:
            given = [params.root_uri]
        self.folders = [path for uri in given if (path := path_of(uri)) is not None]
        options = params.initialization_options
        self.options = options if isinstance(options, dict) else {}

    def set_up(self) -> None:
        """Tell the worker of folders and settings; all is looked at anew."""
        table = self.options.get("settings") or {}
        try:
            overrides = read_values(table, Path("the editor's settings"), "")
        except SettingsError as error:
            self.say("error", str(error))
            overrides = {}
        cache = self.options.get("cache", True) is not False
        lenses = self.options.get("codeLens", True) is not False
        self._settings_files = _signatures(self.folders)
        self.worker.send(m.Setup(tuple(self.folders), overrides, cache, lenses))

    def settings_changed(self) -> bool:
        """Whether a settings file of an open folder is not what it was when this was asked last."""
        before, self._settings_files = self._settings_files, _signatures(self.folders)
        return before != self._settings_files

    def _started(self) -> None:
        self.progress_bar.show(0, 0)
        self.set_up()
        for document in self.files:
            self._send(document)

    def _ended(self, how: str, again: bool) -> None:
        for question in self._questions.values():
            if not question.done():
                question.set_result(None)
        self.progress_bar.end()
        what = ""
        if self._checking is not None:
            key = (self._checking.path, self._checking.serial)
            self._crashes[key] = self._crashes.get(key, 0) + 1
            what = f" while it looked at {key[0]}"
            if self._crashes[key] >= _CRASHES:
                what += ", which is left out until it changes"
        then = "it was started again" if again else "run `pygraph-lint.restart` to try again"
        self.say("error", f"pygraph-lint: the analysis ended ({how}){what}; {then}.")

    def say(self, level: str, text: str) -> None:
        """Show a message to the user."""
        self.window_show_message(types.ShowMessageParams(_LEVELS[level], text))

    # --- texts ---

    def take(self, document: Open | None) -> None:
        """A file has a new version."""
        if document is not None:
            self._fresh[document.path] = asyncio.Event()
            self._send(document)

    def _send(self, document: Open) -> None:
        if self._crashes.get((document.path, document.serial), 0) < _CRASHES:
            self.worker.send(m.Text(document.path, document.serial, document.text))

    def forget(self, uri: str) -> None:
        """A file was closed."""
        document = self.files.closed(uri)
        if document is not None:
            self.worker.send(m.Closed(document.path))
            self.known.pop(document.path, None)
            self.lenses.pop(document.path, None)
            self._fresh.pop(document.path, None)
            self._publish(document, ())

    async def fresh(self, document: Open, seconds: float) -> tuple[m.Row, ...] | None:
        """The findings of this version, waited for up to a time; None where there are none yet."""
        event = self._fresh.get(document.path)
        if event is not None and not event.is_set():
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(event.wait(), seconds)
        known = self.known.get(document.path)
        return known.rows if known is not None and known.serial == document.serial else None

    # --- what the worker says ---

    def _hear(self, message: m.FromWorker) -> None:
        if isinstance(message, m.Found):
            self._found(message)
        elif isinstance(message, m.Answer):
            question = self._questions.pop(message.id, None)
            if question is not None and not question.done():
                question.set_result(message.value)
        elif isinstance(message, m.Lenses):
            self._over(message)
        elif isinstance(message, m.Checking):
            self._checking = message
        elif isinstance(message, m.Reading):
            self.progress_bar.show(message.done, message.total)
        elif isinstance(message, m.Idle):
            self._checking = None
            self.progress_bar.end()
        elif isinstance(message, m.Said):
            self.say(message.level, message.text)

    def _found(self, found: m.Found) -> None:
        document = self.files.at(found.path)
        if document is None or document.serial != found.serial:
            return
        self.known[found.path] = found
        self._publish(document, found.rows)
        self._fresh.setdefault(found.path, asyncio.Event()).set()
        self.progress_bar.end()

    def _over(self, message: m.Lenses) -> None:
        """Keep lenses, and have the editor ask for them again."""
        self.lenses[message.path] = message.lenses
        workspace = self.client_capabilities.workspace
        code_lens = workspace.code_lens if workspace is not None else None
        if code_lens is not None and code_lens.refresh_support:
            self.workspace_code_lens_refresh(None)

    def _publish(self, document: Open, rows: Sequence[m.Row]) -> None:
        found = shown.diagnostics(document, rows)
        versions = dict(document.parts)
        # Cells that are gone keep nothing.
        for uri in self._published.get(document.path, set()) - set(found):
            found[uri] = []
        self._published[document.path] = set(versions)
        marks = shown.marks(document, rows)
        if marks or document.path in self._marked:
            self._marked.add(document.path)
            for uri, version in document.parts:
                given = {"uri": uri, "version": version, "marks": marks.get(uri, [])}
                self.protocol.notify(MARKS, given)
        for uri, diagnostics in found.items():
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri, diagnostics, versions.get(uri))
            )

    async def ask(self, what: str, document: Open, seconds: float, number: int = 0) -> Any:
        """The worker's answer about a version of a file; None where it does not come in time."""
        self._last_question += 1
        asked = self._last_question
        answer = asyncio.get_running_loop().create_future()
        self._questions[asked] = answer
        self.worker.send(m.Ask(asked, what, document.path, document.serial, number))
        try:
            return await asyncio.wait_for(answer, seconds)
        except asyncio.TimeoutError:
            return None
        finally:
            if self._questions.pop(asked, None) is not None:
                self.worker.send(m.Cancel(asked))

    def leave(self) -> None:
        """End both processes."""
        self.worker.stop()
        os._exit(0 if self.protocol._shutdown else 1)


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
