"""What editors differ in: encodings, notebooks, folders, and how badly they can behave."""

from __future__ import annotations

import asyncio
import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from pygraph_lint.cli import main
from tests.lint.support import BOTH, CLEAN, SYNCS
from tests.server.client import Editor, code_of, editor

FLAMES = SYNCS.replace("peak = x", "name = '🔥é漢'; peak = x")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with one file."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
    (made / "a.py").write_text(FLAMES)
    return made


@pytest.mark.parametrize("encoding", ["utf-8", "utf-32", None])
def test_columns_are_the_editors_with_characters_of_any_size(
    folder: Path, encoding: str | None
) -> None:
    def offer(params: types.InitializeParams) -> None:
        kinds = None if encoding is None else [types.PositionEncodingKind(encoding)]
        params.capabilities.general = types.GeneralClientCapabilities(position_encodings=kinds)

    async def session() -> None:
        async with editor(folder, change=offer) as opened:
            chosen = opened.initialized.capabilities.position_encoding
            assert chosen == (encoding or "utf-16")
            codec, width = {
                "utf-8": ("utf-8", 1),
                "utf-16": ("utf-16-le", 2),
                "utf-32": ("utf-32-le", 4),
            }[chosen]
            [found] = await opened.open("a.py")
            line = FLAMES.split("\n")[5]
            before = line[: line.index("x.abs")]
            assert found.range.start.character == len(before.encode(codec)) // width
            # A change behind those characters hits what it means.
            start = found.range.start
            opened.change("a.py", types.TextDocumentContentChangePartial(found.range, "1.5"))
            assert await opened.shown("a.py") == []
            end = types.Position(start.line, start.character + 3)
            written = types.Range(start, end)
            opened.change("a.py", types.TextDocumentContentChangePartial(written, "x.item()"))
            assert code_of(await opened.shown("a.py")) == [("PG201", 6)]
            assert "PG201" in await opened.hover("a.py", start)

    asyncio.run(session())


def _cells(*texts: str) -> tuple[types.NotebookDocument, list[types.TextDocumentItem]]:
    items = [
        types.TextDocumentItem(f"vscode-notebook-cell:book#{n}", types.LanguageKind.Python, 1, text)
        for n, text in enumerate(texts)
    ]
    cells = [types.NotebookCell(types.NotebookCellKind.Code, item.uri) for item in items]
    return types.NotebookDocument("", "jupyter-notebook", 1, cells), items


def test_cells_of_a_notebook_count_as_one_program(folder: Path) -> None:
    head, _, rest = SYNCS.partition("\n\n\n")

    async def session(opened: Editor) -> None:
        book, items = _cells("%matplotlib inline\n" + head, rest)
        book.uri = opened.uri("book.ipynb")
        client = opened.client
        client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(book, items))

        def shown(number: int) -> Any:
            mine = [one for one in opened.published if one.uri == items[number].uri]
            return mine[-1] if mine else None

        await opened.until(lambda: shown(1) and shown(1).diagnostics)
        [found] = shown(1).diagnostics
        assert (found.code, found.range.start.line) == ("PG201", 2)
        assert not shown(0).diagnostics
        cell = types.TextDocumentIdentifier(items[1].uri)
        actions = await client.text_document_code_action_async(
            types.CodeActionParams(cell, found.range, types.CodeActionContext([]))
        )
        ignore = next(one for one in actions or () if "ignore" in one.title)
        edit = (await client.code_action_resolve_async(ignore)).edit  # type: ignore[arg-type]
        [change] = edit.document_changes  # type: ignore[union-attr,misc]
        assert change.text_document.uri == items[1].uri  # type: ignore[union-attr]
        assert "# noqa: PG201" in change.edits[0].new_text  # type: ignore[union-attr]
        # The first cell goes away: nothing is a tensor any more.
        array = types.NotebookCellArrayChange(start=0, delete_count=1)
        structure = types.NotebookDocumentCellChangeStructure(
            array, did_close=[types.TextDocumentIdentifier(items[0].uri)]
        )
        client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(2, book.uri),
                types.NotebookDocumentChangeEvent(
                    cells=types.NotebookDocumentCellChanges(structure)
                ),
            )
        )
        await opened.until(lambda: not shown(1).diagnostics)
        client.notebook_document_did_close(
            types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier(book.uri), [cell])
        )

    async def all_of_it() -> None:
        async with editor(folder) as opened:
            await session(opened)

    asyncio.run(all_of_it())


def test_each_folder_has_its_own_settings(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "pygraph-lint.toml").write_text("select = ['PG1']\n")
    (other / "b.py").write_text(BOTH)
    outside = tmp_path / "outside.py"
    outside.write_text(BOTH)

    async def session() -> None:
        async with editor(folder, other) as opened, editor(folder) as second:
            assert code_of(await opened.open("a.py")) == [("PG201", 6)]
            assert code_of(await opened.open("../other/b.py")) == [("PG101", 6)]
            assert code_of(await opened.open("../outside.py")) == [("PG101", 6), ("PG201", 12)]
            # Another editor with the same folder is no trouble.
            assert code_of(await second.open("a.py")) == [("PG201", 6)]
            assert len({one.pid for one in (*opened.processes(), *second.processes())}) == 4
            event = types.WorkspaceFoldersChangeEvent(
                [], [types.WorkspaceFolder(other.as_uri(), "other")]
            )
            opened.client.workspace_did_change_workspace_folders(
                types.DidChangeWorkspaceFoldersParams(event)
            )
            (folder / "pyproject.toml").unlink()
            shutil.rmtree(other)  # and a file in it is still open
            opened.changed_on_disk("../other/b.py", "../other/pygraph-lint.toml")
            found = await opened.write("../other/b.py", BOTH)
            assert code_of(found) == [("PG101", 6), ("PG201", 12)]
            opened.client.notebook_document_did_close(
                types.DidCloseNotebookDocumentParams(types.NotebookDocumentIdentifier("x:y"), [])
            )

    asyncio.run(session())


async def _is_cancelled(opened: Editor, asked: types.CodeActionParams, name: str) -> bool:
    """Whether a question that is taken back at once is not answered."""
    waiting = asyncio.ensure_future(
        opened.client.protocol.send_request_async(
            types.TEXT_DOCUMENT_CODE_ACTION, asked, msg_id=name
        )
    )
    await asyncio.sleep(0)
    opened.client.cancel_request(types.CancelParams(name))
    try:
        await waiting
    except Exception as error:
        assert "cancel" in str(error).lower(), error
        return True
    return False


def test_no_bad_input_ends_it(folder: Path) -> None:
    long = "import torch\n" + "".join(
        f"class M{n}(torch.nn.Module):\n    def forward(self, x):\n        return x.relu()\n\n"
        for n in range(2500)
    )

    async def session() -> None:
        async with editor(folder) as opened:
            text = ""
            opened.open_now("typed.py", text)
            for character in SYNCS:  # typed without a pause: most of it is no Python
                end = types.Position(text.count("\n"), len(text) - (text.rfind("\n") + 1))
                text += character
                opened.change(
                    "typed.py",
                    types.TextDocumentContentChangePartial(types.Range(end, end), character),
                )
            assert code_of(await opened.shown("typed.py")) == [("PG201", 6)]
            versions = [one.version for one in opened.published]
            assert versions == sorted(versions), "something old came after something new"
            assert [one.code for one in await opened.open("binary.py", "\0\1\2\udc80")] == ["PG002"]
            assert await opened.open("long.py", long) == []
            assert [one.code for one in await opened.open("deep.py", "(" * 3000)] == ["PG001"]
            opened.open_now("closed.py", long)
            opened.close("closed.py")  # while it is checked
            opened.client.text_document_did_change(
                types.DidChangeTextDocumentParams(
                    types.VersionedTextDocumentIdentifier(9, opened.uri("never_opened.py")), []
                )
            )
            where = types.Range(types.Position(5, 0), types.Position(6, 0))
            asked = types.CodeActionParams(
                types.TextDocumentIdentifier(opened.uri("typed.py")),
                where,
                types.CodeActionContext([]),
            )
            cancelled = [await _is_cancelled(opened, asked, str(number)) for number in range(5)]
            assert any(cancelled)  # some may be answered before
            assert await opened.write("typed.py", CLEAN) == []
            assert [one.message for one in opened.client.messages] == []
            assert len(opened.processes()) == 2

    asyncio.run(session())


def test_a_first_read_shows_progress_and_leaves_time_for_questions(folder: Path) -> None:
    many = folder / "many"
    many.mkdir()
    body = "".join(SYNCS.partition("\n\n\n")[2].replace("Model", f"M{n}") for n in range(60))
    for n in range(40):
        (many / f"m{n}.py").write_text(f"import torch\n{body}")

    async def session() -> None:
        async with editor(folder) as opened:
            loop = asyncio.get_running_loop()
            opened.open_now("a.py")
            slowest = 0.0
            while not opened.published:
                started = loop.time()
                await opened.hover("a.py", types.Position(5, 30))
                slowest = max(slowest, loop.time() - started)
            await opened.shown("a.py")
            reports = list(opened.client.progress_reports.values())[-1]
            assert reports[0].title == "pygraph-lint: reading the project"
            assert isinstance(reports[-1], types.WorkDoneProgressEnd)
            assert any(getattr(one, "message", None) for one in reports)
            assert slowest < 2.0  # 0.3 on a machine with nothing else to do

    asyncio.run(session())


def test_one_sentence_where_the_extra_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["server", "--stdio"]) == 2
    assert capsys.readouterr().err == (
        "error: the editor server needs pygls and lsprotocol: pip install 'pygraph-lint[server]'\n"
    )
