"""The benchmark that runs packages' own test suites before and after fixes."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import fix_suites
from benchmarks.fix_suites import Suite

SUITE = Suite("toy-1.0", "toy", ("tests",))
CODE = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.tensor(2.0, device=x.device)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "made" / "toy-1.0" / "toy"
    tests = ("tests/test_net.py", "_tests/common.py", "net_test.py", "test_net.py")
    for file in (package / name for name in ("net.py", *tests)):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CODE)
    with tarfile.open(tmp_path / "toy-1.0.tar.gz", "w:gz") as archive:
        archive.add(package.parent, "toy-1.0")
    return tmp_path


def lines_of(before: Path, after: Path) -> dict[Path, set[int]]:
    return fix_suites.changed(fix_suites.edits(SUITE, before, after), after)


def test_a_copy_is_fixed_and_its_tests_are_not(folder: Path) -> None:
    before = fix_suites.unpacked(SUITE, folder, "before")
    after = fix_suites.unpacked(SUITE, folder, "unsafe")
    assert lines_of(before, after) == {}
    made = fix_suites.fixed(SUITE, after, "unsafe")
    assert sum(made.values()) == 1
    assert lines_of(before, after) == {after / "toy" / "net.py": {7}}


@pytest.mark.parametrize(
    ("line", "made"), [("from .common import it", True), ("from toy import it", False)]
)
def test_tests_that_import_each_other_are_a_package(tmp_path: Path, line: str, made: bool) -> None:
    (tmp_path / "test_net.py").write_text(f"import torch\n\n{line}\n")
    fix_suites.complete(tmp_path)
    assert (tmp_path / "__init__.py").exists() == made


def test_files_need_not_be_utf8(tmp_path: Path) -> None:
    for name, text in (("old", "x = 'é'\n"), ("new", "x = 'é'\ny = 1\n")):
        code = tmp_path / name / "toy"
        code.mkdir(parents=True)
        (code / "net.py").write_bytes(f"# coding: latin-1\n{text}".encode("latin-1"))
        fix_suites.complete(code)
    new = tmp_path / "new"
    assert lines_of(tmp_path / "old", new) == {new / "toy" / "net.py": {3}}


@pytest.mark.parametrize(
    ("classname", "expected"),
    [("tests.test_net", "test_it[1]"), ("tests.test_net.TestNet", "TestNet::test_it[1]")],
)
def test_tests_have_the_names_that_pytest_takes(classname: str, expected: str) -> None:
    case = ElementTree.Element(
        "testcase", file="tests/test_net.py", classname=classname, name="test_it[1]"
    )
    assert fix_suites._place(case) == expected


def test_a_decorator_is_run_where_its_function_is() -> None:
    text = b"""@first
@second(
    1
)
def run(x):
    \"\"\"It runs.\"\"\"
    return x
"""
    assert fix_suites.decorated(text) == {1: 7, 2: 7, 3: 7, 4: 7}


def test_settings_of_pytest_are_the_distributions_own(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    assert fix_suites.settings_of(tmp_path) == "/dev/null"
    (tmp_path / "setup.cfg").write_text("[tool:pytest]\n")
    assert fix_suites.settings_of(tmp_path) == str(tmp_path / "setup.cfg")


def test_a_copy_is_within_another_one_that_has_its_edits(tmp_path: Path) -> None:
    texts = {
        "before": "a = 1\nb = 2\nc = 3\nd = 4\n",
        "few": "a = 1\nb = 2\nc = 3\nd = 5\n",
        "more": "a = 0\nz = 1\nb = 2\nc = 3\nd = 5\n",
        "other": "a = 0\nz = 1\nb = 2\nc = 3\nd = 6\n",
    }
    for name, text in texts.items():
        (tmp_path / name / "toy").mkdir(parents=True)
        (tmp_path / name / "toy" / "net.py").write_text(text)
    made = {n: fix_suites.edits(SUITE, tmp_path / "before", tmp_path / n) for n in texts}
    assert fix_suites.within(made["few"], made["more"])
    assert not fix_suites.within(made["more"], made["few"])
    assert not fix_suites.within(made["few"], made["other"])
    assert fix_suites.changed(made["more"], tmp_path) == {tmp_path / "toy" / "net.py": {1, 2, 5}}


def test_a_copy_within_the_unsafe_one_is_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []

    def outcomes(_: Suite, where: Path, *__: object) -> fix_suites.Outcomes:
        ran.append(where.parent.name)
        return {"test": "failed" if fails and where.parent.name == "unsafe" else "passed"}

    monkeypatch.setattr(fix_suites, "outcomes", outcomes)
    monkeypatch.setattr(fix_suites, "covered", lambda _: 100.0)
    monkeypatch.setattr(fix_suites, "executed", lambda _, lines: {"changed_lines": len(lines)})
    fails = False
    row = fix_suites.measure(SUITE, folder)
    assert ran == ["before", "unsafe"]
    assert row["safe"]["part_of"] == row["closed"]["part_of"] == "unsafe"
    assert row["safe"]["fixes"] == {"safe": 1, "unsafe": 0} and row["closed"]["changed_lines"] == 1
    fails = True
    row = fix_suites.measure(SUITE, folder)
    assert ran[-4:] == ["before", "unsafe", "closed", "safe"]
    assert row["unsafe"]["no_longer_pass"] == ["test"] and row["closed"]["no_longer_pass"] == []


def test_some_cases_of_each_function_are_drawn(tmp_path: Path) -> None:
    (tmp_path / "test_net.py").write_text(
        """import pytest


@pytest.mark.parametrize("n", range(100))
def test_many(n):
    pass


def test_one():
    pass
"""
    )

    def drawn() -> list[str]:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--co"]
        command += ["-c", os.devnull, "--rootdir", str(tmp_path), *fix_suites.one_in(5)]
        environment = {**os.environ, "PYTHONPATH": str(fix_suites.PLUGINS)}
        asked = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True}
        return subprocess.run([*command, "."], check=True, **asked).stdout.split()  # type: ignore[call-overload]

    names = [word for word in drawn() if "::" in word]
    many = [name for name in names if "test_many" in name]
    assert 10 <= len(many) <= 30 and len(names) == len(many) + 1
    assert [word for word in drawn() if "::" in word] == names
