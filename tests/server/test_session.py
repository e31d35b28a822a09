"""One editor and its files, as the protocol sees them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest
from lsprotocol import types

from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load, rules_folder
from tests.lint.support import BOTH, BOTH_FIXED, CLEAN, FIXABLE, FIXED, SYNCS
from tests.server.client import Editor, code_of, editor

_EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(10_000, 0))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with three files."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
    (made / "both.py").write_text(BOTH)
    (made / "clean.py").write_text(CLEAN)
    (made / "fixable.py").write_text(FIXABLE)
    return made


def run(folder: Path, what: Callable[[Editor], Awaitable[None]]) -> None:
    """Do something in an editor with a folder open."""

    async def all_of_it() -> None:
        async with editor(folder) as opened:
            await what(opened)

    asyncio.run(all_of_it())


def test_unsaved_text_is_checked_and_each_finding_leads_to_its_page(folder: Path) -> None:
    async def session(editor: Editor) -> None:
        found = await editor.open("clean.py")
        assert found == []
        found = await editor.write("clean.py", BOTH)
        assert code_of(found) == [("PG101", 6), ("PG201", 12)]
        about = found[1].code_description
        assert about is not None and about.href.endswith("PG201.md")
        assert found[1].source == "pygraph-lint"
        shown = await editor.hover("clean.py", found[1].range.start)
        assert "Other.forward (forward of an nn.Module)" in shown
        assert "names torch.Tensor" in shown and "#### How to fix it" in shown
        assert await editor.hover("clean.py", types.Position(0, 0)) == ""
        assert (folder / "clean.py").read_text() == CLEAN
        await editor.until(lambda: editor.refreshed)
        assert await editor.lenses("clean.py") == [(11, "1 graph break")]
        found = await editor.write("clean.py", BOTH + "def (\n")
        assert [one.code for one in found] == ["PG001"]
        editor.close("clean.py")
        await editor.until(lambda: not editor.published[-1].diagnostics)

    run(folder, session)


def test_fixes_are_listed_and_worked_out_when_chosen(folder: Path) -> None:
    async def session(editor: Editor) -> None:
        found = await editor.open("both.py")
        listed = await editor.actions("both.py", found[0].range)
        titles = [one.title for one in listed]
        assert titles[0].startswith("PG101: Make the tensor on its device")
        assert titles[1:] == [
            "PG101: ignore on this line",
            "pygraph-lint: make all safe fixes in this file",
        ]
        assert all(one.edit is None for one in listed)
        assert listed[0].is_preferred
        assert applied(BOTH, await editor.edit_of(listed[0])) == BOTH_FIXED
        assert applied(BOTH, await editor.edit_of(listed[2])) == BOTH_FIXED
        ignored = applied(BOTH, await editor.edit_of(listed[1]))
        assert "# starts empty  # noqa: PG101\n" in ignored
        assert code_of(await editor.write("both.py", ignored)) == [("PG201", 12)]
        # What was listed for the old text is not made in the new one.
        assert await editor.edit_of(listed[0]) is None
        all_safe = await editor.actions("both.py", EVERYWHERE, ["source.fixAll"])
        assert all_safe == []

    run(folder, session)


def test_unsafe_fixes_are_marked_and_saving_fixes_only_the_safe_ones(folder: Path) -> None:
    printing = SYNCS.replace("peak = x.abs().max().item()", "print(x)").replace("peak", "2")
    text = FIXABLE + printing.partition("\n")[2].replace("Model", "Other")

    async def session(editor: Editor) -> None:
        found = await editor.open("both.py", text)
        listed = await editor.actions("both.py", EVERYWHERE)
        unsafe = [one for one in listed if one.title.endswith("(unsafe)")]
        assert len(found) == 2 and len(unsafe) == 1 and not unsafe[0].is_preferred
        saving = await editor.actions("both.py", EVERYWHERE, ["source.fixAll"])
        assert [one.kind for one in saving] == ["source.fixAll.pygraph-lint"]
        assert applied(text, await editor.edit_of(saving[0])) == text.replace(FIXABLE, FIXED)

    run(folder, session)


def test_settings_files_hold_and_are_looked_at_again_when_they_change(folder: Path) -> None:
    settings = folder / "pyproject.toml"

    async def session(editor: Editor) -> None:
        assert len(await editor.open("both.py")) == 2
        settings.write_text("[tool.pygraph-lint]\nignore = ['PG101']\n")
        editor.changed_on_disk("pyproject.toml")
        await editor.until(lambda: code_of(editor.published[-1].diagnostics) == [("PG201", 12)])
        settings.write_text("[tool.pygraph-lint]\nignoer = ['PG101']\n")
        editor.changed_on_disk("pyproject.toml")
        await editor.until(lambda: editor.client.messages)
        assert (
            "unknown setting `ignoer`; did you mean `ignore`?" in editor.client.messages[0].message
        )
        settings.write_text("[tool.pygraph-lint]\nexclude = ['both.py']\n")
        editor.save("both.py", BOTH)  # an editor that does not watch files
        await editor.until(lambda: not editor.published[-1].diagnostics)

    run(folder, session)


def test_a_crashed_worker_is_started_again_and_the_user_is_told(folder: Path) -> None:
    async def session(editor: Editor) -> None:
        await editor.open("both.py")
        _, worker = editor.processes()
        os.kill(worker.pid, signal.SIGKILL)
        await editor.until(lambda: editor.client.messages)
        assert "the analysis ended (signal 9); it was started again" in (
            editor.client.messages[0].message
        )
        assert code_of(await editor.write("both.py", SYNCS)) == [("PG201", 6)]

    run(folder, session)


@pytest.mark.parametrize("how", ["exit", "killed", "stdin closed"])
def test_no_process_is_left_however_it_ends(folder: Path, how: str) -> None:
    async def session() -> list[psutil.Process]:
        async with editor(folder, leave=how == "exit") as opened:
            opened.open_now("both.py")  # and it ends in the middle of checking it
            await opened.until(lambda: len(opened.processes()) == 2)
            processes = opened.processes()
            if how == "killed":
                processes[0].kill()
            elif how == "stdin closed":
                opened.client._server.stdin.close()
        return processes

    gone, alive = psutil.wait_procs(asyncio.run(session()), timeout=10)
    assert len(gone) == 2 and not alive


def test_the_same_findings_as_check_gives(folder: Path) -> None:
    """Of a project of more than 100 files, the examples of the rules' pages."""
    for page in sorted(rules_folder().glob("PG*.md")):
        for number, example in enumerate(_EXAMPLE.findall(page.read_text())):
            (folder / f"{page.stem.lower()}_{number}.py").write_text(example)
    names = sorted(path.name for path in folder.glob("*.py"))
    wanted: dict[str, list[object]] = {name: [] for name in names}
    for one in Runner(load(), {}).check([folder / name for name in names]):
        place, end = one.location, one.end_location
        where = (place.row, place.column, end.row, end.column)
        wanted[Path(one.filename).name].append((one.code, where, one.message))

    async def session(editor: Editor) -> None:
        for name in names:
            given = []
            for one in await editor.open(name):
                start, end = one.range.start, one.range.end
                where = (start.line + 1, start.character + 1, end.line + 1, end.character + 1)
                given.append((one.code, where, one.message))
            assert given == wanted[name], name
            editor.close(name)

    run(folder, session)
    assert len(names) > 100
    assert sum(map(len, wanted.values())) > 100


def applied(text: str, edit: types.WorkspaceEdit | None) -> str:
    """An ASCII text after the edits of its one document."""
    assert edit is not None and edit.document_changes is not None
    [change] = edit.document_changes
    assert isinstance(change, types.TextDocumentEdit)
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]

    def offset(position: types.Position) -> int:
        return starts[position.line] + position.character

    for one in sorted(change.edits, key=lambda one: offset(one.range.start), reverse=True):
        assert isinstance(one, types.TextEdit)
        text = text[: offset(one.range.start)] + one.new_text + text[offset(one.range.end) :]
    return text
