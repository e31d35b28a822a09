"""An editor's open files: after each edit, the findings of a fresh check of the saved texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pygraph_lint.findings import Finding
from pygraph_lint.project import file_records, project_files
from pygraph_lint.project.open_project import OpenProject
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import load
from tests.lint.test_relevant_files import FILES, _all

RULES = load()
MODEL = "import torch\nclass M{n}(torch.nn.Module):\n    def forward(self, x): return x.relu()\n"
BASE, TOOLS, A, B = "pkg/base.py", "pkg/tools.py", "pkg/models/a.py", "pkg/models/b.py"
# Edits, one after another: file, what is replaced, by what; an empty text stands for the end.
EDITS = [
    (A, "pick(x.sum(), 3)", "pick(x.sum().item(), 3)"),
    (A, "x.sum().item()", "x.mean()"),
    (TOOLS, "if value > limit", "if limit > value"),
    (TOOLS, "    if limit > value:\n        return value\n", ""),
    (TOOLS, "    return limit\n", "    return limit if value > 0 else value\n"),
    (BASE, "return self.part(x)", "return self.part(x.tolist())"),
    (BASE, "self.part(x.tolist())", "self.part(x)"),
    (BASE, "raise NotImplementedError", "return x.item()"),
    (BASE, "def part(self, x)", "def part(self, x, y=None)"),
    (BASE, "torch.nn.Module", "object"),
    (BASE, "(object)", "(torch.nn.Module)"),
    (BASE, "if x.sum() > limit", "if limit > 3"),
    (BASE, "if limit > 3", "while x.sum() > limit"),
    (BASE, "class Base", "class Bases"),
    (BASE, "class Bases", "class Base"),
    (BASE, '["Base", "scale"]', '["Base"]'),
    (BASE, '["Base"]', '["Base", "scale"]'),
    (B, "from pkg import Base, scale", "from pkg import Base, scale\nfrom ..tools import never"),
    (B, "return scale(x, x.mean())", "never(x)\n        return scale(x, 3)"),
    (B, "never(x)", "if x.sum(): never(x)"),
    (B, "import torch", "import torch ("),
    (B, "import torch (", "import torch"),
    (B, "class B(Base)", "class B(torch.nn.Module)"),
    ("train.py", "meter.update(loss)", "meter.update(loss.item())"),
    ("train.py", "meter.update(loss.item())", "print(loss)"),
    ("train.py", "print(loss)", "if loss > 3: print(1)  # noqa: PG704"),
    ("train.py", "model = torch.compile(A())", "model = A()"),
    (
        "pkg/new.py",
        "",
        "from .models.a import A\nclass N(A):\n    def part(self, x): ...\n",
    ),
    ("pkg/new.py", "...", "return x.item()"),
    ("pkg/new.py", "(A)", ""),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with so many files that one is checked without reading the others."""
    others = {f"pkg/many/m{n}.py": MODEL.format(n=n) for n in range(20)}
    for name, text in (FILES | others | {"pkg/many/__init__.py": ""}).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(project_files, "_MANY", 1)
    return tmp_path


def _rows(findings: list[Finding]) -> list[tuple[Any, ...]]:
    return [_all(finding) for finding in findings]


def _fresh(path: Path) -> list[tuple[Any, ...]]:
    return _rows(Runner(RULES, {}).check([path]))


def test_each_edit_gives_the_findings_of_a_fresh_check(folder: Path) -> None:
    project = OpenProject(RULES)
    files = [folder / name for name in (*FILES, "pkg/new.py") if name.endswith(".py")]
    shown = {path: _rows(project.findings(path)) for path in files if path.exists()}
    changed = 0
    for name, old, new in EDITS:
        path = folder / name
        before = path.read_text() if path.exists() else ""
        assert old in before, (name, old)
        text = before.replace(old, new, 1)
        if path not in shown:
            path.write_text(text)
            shown[path] = _rows(project.findings(path))
        project.take(path, text)
        path.write_text(text)
        for each, found in shown.items():
            now = _rows(project.findings(each))
            changed += each != path and now != found
            assert now == _fresh(each), (name, old, new)
            shown[each] = now
    assert len(EDITS) >= 20 and changed >= 10


def test_the_text_on_disk_counts_again_after_closing(folder: Path) -> None:
    project = OpenProject(RULES)
    a, tools = folder / A, folder / TOOLS
    first, in_tools = _rows(project.findings(a)), _rows(project.findings(tools))
    project.take(tools, FILES[TOOLS].replace("if value > limit", "if value.item()"))
    project.take(a, FILES[A].replace("pick(x.sum(), 3)", "x.item()"))
    assert _rows(project.findings(a)) != first
    assert _rows(project.findings(tools)) != in_tools
    project.take(a, None)
    project.take(tools, None)
    assert _rows(project.findings(a)) == first
    assert _rows(project.findings(tools)) == in_tools
    tools.unlink()
    project.take(tools, None)
    assert _rows(project.findings(a)) == _fresh(a)


def test_an_edit_leaves_other_files_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = OpenProject(RULES)
    files = [folder / name for name in (BASE, TOOLS, A, B)]
    for path in files:
        project.findings(path)
    analysed: list[str] = []
    original = file_records.analyse

    def spy(data: bytes, task: file_records.Task, *rest: Any) -> file_records.Record:
        analysed.append(task.relative)
        return original(data, task, *rest)

    monkeypatch.setattr(file_records, "analyse", spy)
    project.take(folder / A, FILES[A].replace("x.sum()", "x.mean()"))
    for path in files:
        project.findings(path)
    assert analysed == [A]


@pytest.mark.parametrize("allowed", range(8))
def test_a_check_that_was_stopped_can_be_asked_again(folder: Path, allowed: int) -> None:
    class Stopped(Exception):
        pass

    left = 10_000

    def step() -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Stopped

    project = OpenProject(RULES, step=step)
    files = [folder / name for name in (TOOLS, A, BASE)]
    for path in files:
        project.findings(path)
    text = FILES[BASE].replace("self.part(x)", "self.part(x.tolist())")
    project.take(folder / BASE, text)
    left = allowed
    with pytest.raises(Stopped):
        for path in files:
            step()
            project.findings(path)
    left = 10_000
    given = {path: project.findings(path) for path in files}
    (folder / BASE).write_text(text)
    for path, findings in given.items():
        assert _rows(findings) == _fresh(path)
