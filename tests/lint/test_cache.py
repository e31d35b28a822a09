"""The cache: fast, and never a reason for another answer."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pygraph_lint.analysis import extract
from pygraph_lint.analysis.program.facts import LoopBody
from pygraph_lint.files import cache
from pygraph_lint.files.cache import Cache, digest, tool_key
from pygraph_lint.project import file_records, project_files
from tests.lint.support import CLEAN, REPOSITORY, Lint

BASE = CLEAN.replace("Model", "Base")
# It never says torch: what it is about, it has from its base.
CHILD = """\
from .base import Base


class Child(Base):
    def forward(self, x):
        peak = super().forward(x).abs().max().item()
        return x / (peak + 1.0)
"""


@pytest.fixture
def package(lint: Lint) -> Lint:
    """A package whose second file is about tensors only through its first."""
    lint.write({"pkg/__init__.py": "", "pkg/base.py": BASE, "pkg/child.py": CHILD})
    return lint


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are analysed, as it happens."""
    seen: list[str] = []
    original = file_records.analyse

    def spy(data: bytes, task: file_records.Task, *rest: object) -> file_records.Record:
        seen.append(task.relative)
        return original(data, task, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(file_records, "analyse", spy)
    return seen


def test_second_run_analyses_nothing_and_says_the_same(package: Lint, analysed: list[str]) -> None:
    first = package(".").lines
    assert len(first) == 1
    assert set(analysed) == {"pkg/__init__.py", "pkg/base.py", "pkg/child.py"}
    analysed.clear()
    assert package(".").lines == first
    assert analysed == []
    assert package("--no-cache", ".").lines == first
    assert len(analysed) == 3


def test_only_what_changed_is_analysed_again(package: Lint, analysed: list[str]) -> None:
    package(".")
    analysed.clear()
    package.write({"pkg/child.py": CHILD.replace("abs()", "exp()")})
    assert len(package(".").lines) == 1
    assert analysed == ["pkg/child.py"]


@pytest.mark.parametrize("options", [(), ("--no-cache",)])
def test_editing_a_base_class_changes_its_dependants(
    package: Lint, options: tuple[str, ...]
) -> None:
    assert len(package(*options, "pkg/child.py").lines) == 1
    # Of the same length, within the clock's grain: the content alone tells.
    package.write({"pkg/base.py": BASE.replace("torch.nn.Module", "torch.nn.modul_")})
    assert package(*options, "pkg/child.py").lines == []
    package.write({"pkg/base.py": BASE})
    assert len(package(*options, "pkg/child.py").lines) == 1


def test_removing_and_adding_files_counts(package: Lint) -> None:
    assert len(package(".").lines) == 1
    base = package.folder / "pkg/base.py"
    base.rename(package.folder / "pkg/elsewhere.py")
    assert package(".").lines == []
    (package.folder / "pkg/elsewhere.py").rename(base)
    assert len(package(".").lines) == 1


def test_settings_do_not_share_answers(package: Lint) -> None:
    for _ in range(2):
        assert len(package(".").lines) == 1
        assert package("--target", "fullgraph", ".").lines == []
        assert package("--ignore", "PG201", ".").lines == []


def test_old_stat_with_new_content_is_noticed(package: Lint) -> None:
    path = package.folder / "pkg/child.py"
    package(".")
    status = path.stat()
    package.write({"pkg/child.py": CHILD.replace(".item()", ".sum() ")})
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert package(".").lines == []


TRAINING = """\
import torch


class Trainer:
    def fit(self, model, batches):
        for batch in batches:
            loss = model(batch).mean()
            loss.backward()
            self.log(loss)

    def log(self, loss):
        print(loss.item())

    def never_called(self, loss):
        print(loss.tolist())
"""


def test_functions_that_loops_call_are_worked_out_once(
    package: Lint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    original = extract.helper_body

    def spy(helpers: Mapping[str, LoopBody], name: str) -> LoopBody:
        asked.append(name)
        return original(helpers, name)

    monkeypatch.setattr(extract, "helper_body", spy)
    package.write({"train.py": TRAINING})
    first = package(".").lines
    assert any("item" in line for line in first)
    assert asked == ["train.Trainer.log"]
    package.write({"pkg/child.py": CHILD + "\n"})  # all files are linked again
    assert package(".").lines == first
    assert asked == ["train.Trainer.log"]


def test_damaged_entries_are_made_again(package: Lint, own_caches: Path) -> None:
    first = package(".").lines
    entries = [path for path in own_caches.rglob("*") if path.is_file()]
    assert len(entries) >= 4
    for damage in (b"", b"nonsense", None):
        for path in entries:
            data = path.read_bytes() if path.exists() else b""
            path.write_bytes(data[:-3] if damage is None else damage)
        assert package(".").lines == first


def test_no_cache_writes_nothing(package: Lint, own_caches: Path) -> None:
    package("--no-cache", ".")
    assert list(own_caches.iterdir()) == []


def test_cache_that_cannot_be_written_is_done_without(package: Lint) -> None:
    package.write({"file": "in the way"})
    assert len(package("--cache-dir", "file/below", ".").lines) == 1


def test_removed_files_leave_the_cache(package: Lint, own_caches: Path) -> None:
    package(".")
    held = {path for path in own_caches.rglob("files/*") if path.is_file()}
    (package.folder / "pkg/child.py").unlink()
    package(".")
    left = {path for path in own_caches.rglob("files/*") if path.is_file()}
    assert len(held) == 3
    assert left < held


def test_entries_know_what_they_are_of(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.store("entry", digest(b"one"), {"a": 1})
    assert cache.load("entry", digest(b"one")) == {"a": 1}
    assert cache.load("entry", digest(b"two")) is None
    assert cache.load("other", digest(b"one")) is None
    assert digest(b"ab", b"c") != digest(b"a", b"bc")


def test_writers_at_once_do_not_disturb_each_other(package: Lint) -> None:
    for number in range(20):
        package.write({f"pkg/more{number}.py": CHILD.replace("Child", f"Child{number}")})
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-m", "pygraph_lint", "."]
    running = [
        subprocess.Popen(command, cwd=package.folder, env=environment, stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    outputs = {process.communicate(timeout=60)[0] for process in running}
    assert len(outputs) == 1
    assert outputs.pop().count(b": PG201 ") == 21
    assert len(package(".").lines) == 21


def test_processes_find_the_same(package: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        package.write({f"pkg/more{number}.py": CHILD.replace("Child", f"Child{number}")})
    alone = package("--no-cache", "--jobs", "1", ".").lines
    monkeypatch.setattr(project_files, "_WORTH_PROCESSES", 0)
    monkeypatch.setattr(project_files, "_CHUNK", 100)
    assert package("--no-cache", "--jobs", "3", ".").lines == alone
    assert len(alone) == 13


def test_unchanged_files_are_not_even_read(package: Lint, monkeypatch: pytest.MonkeyPatch) -> None:
    old = time.time() - 60
    for path in package.folder.rglob("*.py"):
        os.utime(path, (old, old))
    # Younger than this, a file is read again: its time stamp may hide a second change.
    monkeypatch.setattr(project_files, "_RACY", -(10**12))
    first = package(".").lines

    def refuse(*arguments: object) -> bytes:
        raise AssertionError("a file was read")

    monkeypatch.setattr(project_files, "read_bytes", refuse)
    assert package(".").lines == first


def test_clean_removes_the_cache_and_nothing_else(package: Lint, tmp_path: Path) -> None:
    top = tmp_path / "cache"
    assert package("--cache-dir", str(top), ".").code == 1
    (top / "notes.txt").write_text("mine")
    assert len([*top.iterdir()]) == 2
    assert package("clean", "--cache-dir", str(top)).out == f"Removed the cache in {top}.\n"
    assert [path.name for path in top.iterdir()] == ["notes.txt"]
    for folder in (top, tmp_path / "none"):
        again = package("clean", "--cache-dir", str(folder))
        assert (again.out, again.code) == (f"There is no cache in {folder}.\n", 0)


def test_a_module_of_the_tool_that_is_moved_makes_older_entries_unused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("files/cache.py", "analysis/facts.py"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).touch()
    monkeypatch.setattr(cache, "__file__", str(tmp_path / "files/cache.py"))
    before = tool_key()
    (tmp_path / "analysis/facts.py").rename(tmp_path / "files/facts.py")
    assert tool_key() != before
