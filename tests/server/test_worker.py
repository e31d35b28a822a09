"""The worker alone: what it does first, and what it does not say."""

from __future__ import annotations

import gc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.project.open_project import OpenProject
from pygraph_lint.server import messages as m
from pygraph_lint.server.projects import Folder
from pygraph_lint.server.worker import Garbage, Inbox, Interrupted, Worker
from tests.lint.support import BOTH, CLEAN, SYNCS

TOOLS = "import torch\ndef pool(x: torch.Tensor):\n    return x / x.max().item()\n"
MODEL = """\
import torch
from tools import pool
class Model(torch.nn.Module):
    def forward(self, x):
        return pool(self.encode(x))
    def encode(self, x):
        if x.sum() > 0:
            return x + 1
        return x
"""


class Hand:
    """A worker that is told what to do step by step, and what it said."""

    def __init__(self, *folders: Path, **setup: Any) -> None:
        self.inbox = Inbox(None)  # type: ignore[arg-type]
        self.said: list[m.FromWorker] = []
        self.worker = Worker(self.inbox, self.said.append)
        self.worker._accept(m.Setup(folders, cache=False, **setup))

    def tell(self, *messages: m.ToWorker) -> None:
        """Let messages arrive, to be taken when the worker looks."""
        self.inbox._messages += messages

    def step(self) -> bool:
        """Take what has come and do one thing; whether there was any."""
        for message in self.inbox.take(wait=False):
            self.worker._accept(message)
        try:
            return self.worker._work()
        except Interrupted:
            return True

    def finish(self) -> list[m.FromWorker]:
        """Do all there is; what was said."""
        while self.step():
            pass
        return self.said

    def found(self) -> list[tuple[str, int, list[str]]]:
        """What was said of files: name, serial, codes."""
        return [
            (one.path.name, one.serial, [row.code for row in one.rows])
            for one in self.said
            if isinstance(one, m.Found)
        ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project in which one file calls another."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
    for name, text in {"tools.py": TOOLS, "model.py": MODEL, "both.py": BOTH}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_last_edit_comes_first_then_questions_then_what_may_have_changed(folder: Path) -> None:
    hand = Hand(folder, lenses=False)
    a, b = folder / "model.py", folder / "tools.py"
    hand.tell(m.Text(a, 1, MODEL), m.Text(b, 2, TOOLS))
    hand.finish()
    assert hand.found() == [("tools.py", 2, ["PG201"]), ("model.py", 1, ["PG301"])]
    hand.said.clear()
    hand.tell(m.Ask(1, "fixes", a, 1), m.Text(b, 3, TOOLS + "\n"))
    hand.tell(m.Text(a, 4, MODEL + "\n"), m.Ask(2, "fixes", a, 4))
    hand.finish()
    kinds = [type(one).__name__ for one in hand.said if not isinstance(one, m.Checking)]
    # The first question is about a text that is gone; the second waits for its text.
    assert kinds[:4] == ["Found", "Answer", "Answer", "Found"]
    answers = {one.id: one.value for one in hand.said if isinstance(one, m.Answer)}
    assert answers[1] is None and len(answers[2]) == 1
    assert hand.found() == [("model.py", 4, ["PG301"]), ("tools.py", 3, ["PG201"])]


def test_other_open_files_are_said_again_only_if_something_changed(folder: Path) -> None:
    hand = Hand(folder, lenses=False)
    a, b = folder / "model.py", folder / "tools.py"
    hand.tell(m.Text(b, 1, TOOLS), m.Text(a, 2, MODEL))
    hand.finish()
    hand.said.clear()
    hand.tell(m.Text(a, 3, MODEL.replace("pool(self", "(self")))
    hand.finish()
    assert hand.found() == [("model.py", 3, ["PG301"]), ("tools.py", 1, [])]
    hand.said.clear()
    hand.tell(m.Text(a, 4, MODEL.replace("pool(self", "(self") + "\n"))
    hand.finish()
    assert hand.found() == [("model.py", 4, ["PG301"])]
    hand.said.clear()
    (folder / "model.py").write_text(MODEL)
    hand.tell(m.Closed(a))
    hand.finish()
    assert hand.found() == [("tools.py", 1, ["PG201"])]


def test_an_edit_interrupts_the_check_of_the_text_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(folder, lenses=False)
    path = folder / "both.py"
    original = OpenProject.findings
    checked = []

    def findings(self: OpenProject, path: Path) -> Any:
        if not checked:  # while the first is checked, the next comes
            checked.append(path)
            hand.tell(m.Text(path, 2, SYNCS))
        return original(self, path)

    monkeypatch.setattr(OpenProject, "findings", findings)
    hand.tell(m.Text(path, 1, BOTH))
    hand.finish()
    assert hand.found() == [("both.py", 2, ["PG201"])]


def test_a_question_that_is_taken_back_is_not_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(folder, lenses=False)
    path = folder / "both.py"
    hand.tell(m.Text(path, 1, BOTH))
    hand.finish()

    def fix_all(self: Folder, path: Path) -> Any:
        hand.tell(m.Cancel(5))
        hand.worker._step()

    monkeypatch.setattr(Folder, "fix_all", fix_all)
    hand.tell(m.Ask(5, "fix all", path, 1))
    hand.finish()
    assert not any(isinstance(one, m.Answer) for one in hand.said)


def test_a_failure_of_the_linter_is_said_and_ends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    hand = Hand(folder, lenses=False)

    def broken(self: Folder, path: Path) -> Any:
        raise RecursionError("too deep")

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "check", broken)
        hand.tell(m.Text(folder / "both.py", 1, BOTH))
        hand.finish()
    [said] = [one for one in hand.said if isinstance(one, m.Said)]
    assert "could not be checked, this is a bug: RecursionError: too deep" in said.text
    assert "Traceback" in capfd.readouterr().err
    hand.tell(m.Text(folder / "both.py", 2, SYNCS))
    hand.finish()
    assert hand.found()[-1] == ("both.py", 2, ["PG201"])


def test_lines_over_compiled_functions_count_what_they_reach(folder: Path) -> None:
    hand = Hand(folder)
    hand.tell(m.Text(folder / "model.py", 1, MODEL))
    hand.finish()
    [over] = [one for one in hand.said if isinstance(one, m.Lenses)]
    titles = {(lens.row, lens.title) for lens in over.lenses}
    assert titles == {
        (4, "2 graph breaks, 1 through Model.encode, 1 through tools.pool"),
        (6, "1 graph break"),
    }
    hand.said.clear()
    hand.tell(m.Text(folder / "model.py", 2, MODEL.replace("pool(self.encode(x))", "pool(x)")))
    hand.finish()
    [over] = [one for one in hand.said if isinstance(one, m.Lenses)]
    assert {(lens.row, lens.title) for lens in over.lenses} == {
        (4, "1 graph break through tools.pool")
    }


def test_what_check_passes_over_has_no_findings(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[tool.pygraph-lint]\nextend-exclude = ['gen*']\n")
    hidden = folder / ".venv" / "lib" / "a.py"
    for path in (hidden, folder / "generated.py"):
        hand = Hand(folder)
        hand.tell(m.Text(path, 1, BOTH))
        hand.finish()
        assert hand.found() == [(path.name, 1, [])]
    # A folder that is itself in such a place is looked into.
    hand = Hand(hidden.parent)
    hand.tell(m.Text(hidden, 1, BOTH))
    hand.finish()
    assert hand.found() == [("a.py", 1, ["PG101", "PG201"])]


def test_changes_on_the_disk_count(folder: Path) -> None:
    hand = Hand(folder, lenses=False)
    tools, model, base = folder / "tools.py", folder / "model.py", folder / "new.py"
    hand.tell(m.Text(tools, 1, TOOLS))
    hand.finish()
    model.write_text(CLEAN)
    hand.tell(m.OnDisk((model,)))
    hand.finish()
    assert hand.found()[-1] == ("tools.py", 1, [])
    base.write_text(MODEL)
    hand.tell(m.OnDisk((base,)))
    hand.finish()
    assert hand.found()[-1] == ("tools.py", 1, ["PG201"])
    base.unlink()
    hand.tell(m.OnDisk((base,)))
    hand.finish()
    assert hand.found()[-1] == ("tools.py", 1, [])
    model.write_text(MODEL)
    hand.tell(m.OnDisk(tuple(folder / f"{n}.py" for n in range(300))))
    hand.finish()
    assert hand.found()[-1] == ("tools.py", 1, ["PG201"])


def test_files_that_take_long_are_looked_at_again_when_something_is_saved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = Hand(folder, lenses=False)
    tools, model = folder / "tools.py", folder / "model.py"
    hand.tell(m.Text(tools, 1, TOOLS), m.Text(model, 2, MODEL))
    hand.finish()
    hand.worker._open[tools].seconds = 5.0
    hand.tell(m.Text(model, 3, CLEAN))
    hand.finish()
    assert hand.found()[-1] == ("model.py", 3, [])
    hand.tell(m.Saved(model))
    hand.finish()
    assert hand.found()[-1] == ("tools.py", 1, [])


@pytest.mark.parametrize("rule", ["ALL", "PG2"])
def test_the_editors_own_settings_hold(folder: Path, rule: str) -> None:
    hand = Hand(folder, overrides={"select": (rule,), "unfixable": ("PG101",)})
    hand.tell(m.Text(folder / "both.py", 1, BOTH), m.Ask(1, "fixes", folder / "both.py", 1))
    hand.finish()
    codes = ["PG201"] if rule == "PG2" else ["PG101", "PG201"]
    assert hand.found() == [("both.py", 1, codes)]
    [answer] = [one.value for one in hand.said if isinstance(one, m.Answer)]
    assert [offer is not None for offer in answer] == [code == "PG201" for code in codes]


def test_a_notebook_that_comes_as_one_text_is_that_text(folder: Path) -> None:
    """As jupyterlab-lsp sends it: the cells as one program, under the notebook's name."""
    book = folder / "book.ipynb"
    for text in ("not a notebook", '{"cells": [], "metadata": {}}'):
        book.write_text(text)
        hand = Hand(folder, lenses=False)
        hand.tell(m.Text(book, 1, SYNCS))
        hand.finish()
        assert hand.found() == [("book.ipynb", 1, ["PG201"])]


def test_the_inbox_waits_as_long_as_it_is_told_to() -> None:
    inbox = Inbox(None)  # type: ignore[arg-type]
    assert inbox.take(wait=True, seconds=0.01) == []
    inbox._messages.append(m.Cancel(1))
    assert inbox.take(wait=True) == [m.Cancel(1)]


@pytest.mark.parametrize("much", [False, True])
def test_garbage_is_collected_when_nobody_waits(
    much: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Facts that were read are set aside; other garbage is collected at once only if it is much."""
    done: list[str] = []
    for name in ("collect", "freeze", "disable"):
        monkeypatch.setattr(gc, name, partial(done.append, name))
    monkeypatch.setattr(gc, "get_count", lambda: (10**7 if much else 10, 0, 0))
    garbage = Garbage()
    garbage.take_over()
    assert done == ["disable"] and garbage.swept
    garbage.read = True
    garbage.when_idle()
    garbage.when_idle()
    assert done[1:] == (["freeze", "collect"] if much else [])
    assert not garbage.swept
    garbage.when_quiet()
    assert done[-1] == "collect" and garbage.swept
