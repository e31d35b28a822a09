"""The benchmark that runs packages' own test suites before and after fixes."""

from __future__ import annotations

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
    (package / "tests").mkdir(parents=True)
    for file in (package / "net.py", package / "tests" / "test_net.py"):
        file.write_text(CODE)
    with tarfile.open(tmp_path / "toy-1.0.tar.gz", "w:gz") as archive:
        archive.add(package.parent, "toy-1.0")
    return tmp_path


def test_a_copy_is_fixed_and_its_tests_are_not(folder: Path) -> None:
    before = fix_suites.unpacked(SUITE, folder, "before")
    after = fix_suites.unpacked(SUITE, folder, "unsafe")
    assert fix_suites.changed(SUITE, before, after) == {}
    made = fix_suites.fixed(SUITE, after, "unsafe")
    assert sum(made.values()) == 1
    assert fix_suites.changed(SUITE, before, after) == {after / "toy" / "net.py": {7}}


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
    assert fix_suites.changed(SUITE, tmp_path / "old", new) == {new / "toy" / "net.py": {3}}


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
