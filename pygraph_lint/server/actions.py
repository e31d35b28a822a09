"""Code actions: fixes, and comments that silence. Their edits are worked out when one is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lsprotocol import types

from pygraph_lint.server import messages as m
from pygraph_lint.server import shown
from pygraph_lint.server.front import Front
from pygraph_lint.server.texts import Open

FIX_ALL = f"{types.CodeActionKind.SourceFixAll.value}.pygraph-lint"
KINDS = [types.CodeActionKind.QuickFix, FIX_ALL]
# Seconds. While the project is read for the first time, requests are answered with what is known.
_SOON, _PATIENT, _LONG = 0.1, 1.3, 10.0

Offers = tuple[m.Offer | None, ...]


class Actions:
    """Answers ``textDocument/codeAction`` and ``codeAction/resolve``."""

    def __init__(self, server: Front) -> None:
        self._server = server

    def _seconds(self, document: Open, otherwise: float) -> float:
        never = document.path not in self._server.known
        return _SOON if never or self._server.progress_bar.reading else otherwise

    @property
    def _lazy(self) -> bool:
        """Whether the editor asks for the edit of an action when it is chosen."""
        about = self._server.client_capabilities.text_document
        actions = about.code_action if about is not None else None
        resolve = actions.resolve_support if actions is not None else None
        return resolve is not None and "edit" in resolve.properties

    async def listed(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """What can be done where the editor asks."""
        document = self._server.files.of(params.text_document.uri)
        if document is None:
            return []
        rows = await self._server.fresh(document, self._seconds(document, _PATIENT))
        if not rows:
            return []
        only = params.context.only
        quick = _wanted(types.CodeActionKind.QuickFix.value, only)
        uri = params.text_document.uri
        start = document.place(uri, params.range.start)
        end = document.place(uri, params.range.end)
        here = shown.near(rows, start, end) if quick else []
        if not here and not (only and _wanted(FIX_ALL, only)):
            return []
        offers: Offers | None = None
        if any(row.fixable for row in rows):
            offers = await self._server.ask("fixes", document, self._seconds(document, _PATIENT))
        made = [*self._of_rows(document, here, offers or ())]
        if any(offer is not None and offer.applicability == "safe" for offer in offers or ()):
            made += _fix_all(document, only, bool(here))
        if not self._lazy:
            made = [await self.resolved(action) for action in made]
        return made

    def _of_rows(
        self, document: Open, here: Sequence[tuple[int, m.Row]], offers: Offers
    ) -> Iterator[types.CodeAction]:
        for number, row in here:
            offer = offers[number] if number < len(offers) else None
            where = document.range(row.start, row.end)[1]
            about = [shown.diagnostic(row, where)]
            if offer is not None and offer.edits:
                safe = offer.applicability == "safe"
                yield types.CodeAction(
                    f"{row.code}: {offer.message}" + ("" if safe else " (unsafe)"),
                    types.CodeActionKind.QuickFix,
                    about,
                    is_preferred=True if safe else None,
                    data=_data(document, "fix", number),
                )
        for number, row in here:
            if row.source == m.LINTER and row.severity != "error" and not row.unused:
                where = document.range(row.start, row.end)[1]
                yield types.CodeAction(
                    f"{row.code}: ignore on this line",
                    types.CodeActionKind.QuickFix,
                    [shown.diagnostic(row, where)],
                    data=_data(document, "ignore", number),
                )

    async def resolved(self, action: types.CodeAction) -> types.CodeAction:
        """An action with its edit; without one where the text has changed since."""
        data: Any = action.data
        if not isinstance(data, dict):
            return action
        document = self._server.files.of(str(data.get("uri")))
        if document is None or document.serial != data.get("serial"):
            return action
        edits = await self._edits(document, str(data.get("what")), int(data.get("number", 0)))
        if edits:
            action.edit = self._workspace_edit(document, edits)
        return action

    async def _edits(self, document: Open, what: str, number: int) -> Sequence[m.TextEdit]:
        seconds = self._seconds(document, _LONG)
        if what == "fix":
            offers: Offers | None = await self._server.ask("fixes", document, seconds)
            offer = offers[number] if offers is not None and number < len(offers) else None
            return offer.edits if offer is not None else ()
        edits: Sequence[m.TextEdit] | None
        edits = await self._server.ask(what, document, seconds, number)
        return edits or ()

    def _workspace_edit(self, document: Open, edits: Sequence[m.TextEdit]) -> types.WorkspaceEdit:
        made = document.edited(edits)
        workspace = self._server.client_capabilities.workspace
        capable = workspace.workspace_edit if workspace is not None else None
        if capable is None or not capable.document_changes:
            changes: dict[str, Any] = {one.text_document.uri: one.edits for one in made}
            return types.WorkspaceEdit(changes=changes)
        return types.WorkspaceEdit(document_changes=made)


def _wanted(kind: str, only: Sequence[types.CodeActionKind | str] | None) -> bool:
    """Whether actions of a kind are asked for."""
    if only is None:
        return True
    names = [one.value if isinstance(one, types.CodeActionKind) else one for one in only]
    return any(kind == name or not name or kind.startswith(f"{name}.") for name in names)


def _data(document: Open, what: str, number: int = 0) -> dict[str, object]:
    uri = document.parts[0][0]
    return {"uri": uri, "serial": document.serial, "what": what, "number": number}


def _fix_all(
    document: Open, only: Sequence[types.CodeActionKind | str] | None, here: bool
) -> Iterator[types.CodeAction]:
    """The action that makes all safe fixes, as a quick fix and for saving."""
    title = "pygraph-lint: make all safe fixes in this file"
    if here:
        yield types.CodeAction(
            title, types.CodeActionKind.QuickFix, data=_data(document, "fix all")
        )
    if only and _wanted(FIX_ALL, only):
        yield types.CodeAction(title, FIX_ALL, data=_data(document, "fix all"))
