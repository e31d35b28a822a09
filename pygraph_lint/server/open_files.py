"""What the editor has open, kept up to date by its notifications."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lsprotocol import types

from pygraph_lint.server.documents import Change, Encoding, changed
from pygraph_lint.server.texts import Cell, File, Notebook, Open, path_of


class OpenFiles:
    """The open files and notebooks, by path. Each change makes a new version with a new serial."""

    def __init__(self) -> None:
        self.encoding: Encoding = types.PositionEncodingKind.Utf16
        self._serial = 0
        self._by_path: dict[Path, Open] = {}
        self._by_uri: dict[str, Path] = {}

    def __iter__(self) -> Iterator[Open]:
        return iter(list(self._by_path.values()))

    def at(self, path: Path) -> Open | None:
        """The open file at a path."""
        return self._by_path.get(path)

    def of(self, uri: str) -> Open | None:
        """The open file, or the notebook around the cell, of a URI."""
        path = self._by_uri.get(uri)
        return self._by_path.get(path) if path is not None else None

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    # --- files ---

    def opened(self, item: types.TextDocumentItem) -> Open | None:
        """A file was opened; None where it is none on the disk."""
        path = path_of(item.uri)
        if path is None:
            return None
        self._by_uri[item.uri] = path
        made = File(item.uri, path, item.text, item.version, self._next(), self.encoding)
        return self._keep(made)

    def changed(
        self, given: types.VersionedTextDocumentIdentifier, changes: Sequence[Change]
    ) -> Open | None:
        """A file was changed; None where it is not open."""
        old = self.of(given.uri)
        if not isinstance(old, File):
            return None
        text = changed(old.text, changes, self.encoding)
        return self._keep(replace(old, text=text, version=given.version, serial=self._next()))

    def closed(self, uri: str) -> Open | None:
        """A file or notebook was closed; gives what it was."""
        path = self._by_uri.pop(uri, None)
        old = self._by_path.pop(path, None) if path is not None else None
        if isinstance(old, Notebook):
            for cell in old.cells:
                self._by_uri.pop(cell.uri, None)
        return old

    def _keep(self, document: Open) -> Open:
        self._by_path[document.path] = document
        return document

    # --- notebooks ---

    def notebook_opened(self, params: types.DidOpenNotebookDocumentParams) -> Open | None:
        """A notebook was opened; None where it is none on the disk."""
        path = path_of(params.notebook_document.uri)
        if path is None:
            return None
        texts = {item.uri: item for item in params.cell_text_documents}
        cells = [_cell(cell, texts.get(cell.document)) for cell in params.notebook_document.cells]
        self._by_uri[params.notebook_document.uri] = path
        return self._notebook(path, cells)

    def notebook_changed(self, params: types.DidChangeNotebookDocumentParams) -> Open | None:
        """Cells were changed, added or taken away; None where the notebook is not open."""
        old = self.of(params.notebook_document.uri)
        if not isinstance(old, Notebook):
            return None
        cells = list(old.cells)
        change = params.change.cells
        if change is not None and change.structure is not None:
            structure = change.structure
            texts = {item.uri: item for item in structure.did_open or ()}
            known = {cell.uri: cell for cell in cells}
            array = structure.array
            cells[array.start : array.start + array.delete_count] = [
                known.get(cell.document) or _cell(cell, texts.get(cell.document))
                for cell in array.cells or ()
            ]
            for item in structure.did_close or ():
                self._by_uri.pop(item.uri, None)
        if change is not None:
            cells = [self._with_changes(cell, change) for cell in cells]
        return self._notebook(old.path, cells)

    def _with_changes(self, cell: Cell, change: types.NotebookDocumentCellChanges) -> Cell:
        for data in change.data or ():
            if data.document == cell.uri:
                cell = replace(cell, code=data.kind == types.NotebookCellKind.Code)
        for content in change.text_content or ():
            if content.document.uri == cell.uri:
                text = changed(cell.text, content.changes, self.encoding)
                cell = replace(cell, text=text, version=content.document.version)
        return cell

    def _notebook(self, path: Path, cells: Sequence[Cell]) -> Open:
        self._by_uri.update({cell.uri: path for cell in cells})
        return self._keep(Notebook(path, cells, self._next(), self.encoding))


def _cell(cell: types.NotebookCell, item: types.TextDocumentItem | None) -> Cell:
    """A cell with its text, which the editor sends for those in Python only."""
    code = cell.kind == types.NotebookCellKind.Code and item is not None
    text, version = (item.text, item.version) if item is not None else ("", None)
    return Cell(cell.document, code, text, version)
