"""Changed lines are formatted where the checked project configures ruff, and only those."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pygraph_lint.cli import main
from pygraph_lint.fixes.engine import ruff_format

CODE = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor):
        kept   =   x+1
        y = x * torch.tensor( 2.0, device=x.device )
        return   y+kept
"""
FILLED = "        y = x * torch.full( (), 2.0, device=x.device )\n"


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    ruff_format.wanted.cache_clear()
    ruff_format.executable.cache_clear()


def _fake_ruff(folder: Path, script: str) -> str:
    """A program that is called as ruff would be."""
    program = folder / "ruff"
    program.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    program.chmod(0o755)
    return str(program)


def _fixed(folder: Path) -> str:
    path = folder / "model.py"
    path.write_text(CODE)
    main(["check", str(path), "--fix", "--no-cache", "--exit-zero", "--quiet"])
    return path.read_text()


UPPER = """
text = sys.stdin.read()
first, last = map(int, sys.argv[sys.argv.index("--range") + 1].split("-"))
lines = text.splitlines(keepends=True)
lines[first - 1 : last - 1] = [line.replace("( 2.0 )", "(2.0)").replace("x * ", "(x) * ")
                           for line in lines[first - 1 : last - 1]]
sys.stdout.write("".join(lines))
"""


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script")
def test_only_changed_lines_are_formatted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _fake_ruff(tmp_path, UPPER)
    monkeypatch.setattr(ruff_format, "executable", lambda: program)
    (tmp_path / "ruff.toml").write_text("")
    expected = CODE.replace(
        "        y = x * torch.tensor( 2.0, device=x.device )\n", FILLED.replace("x * ", "(x) * ")
    )
    assert _fixed(tmp_path) == expected


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script")
@pytest.mark.parametrize(
    "script",
    [
        "sys.exit(2)",
        "sys.stdout.write('')",
        "sys.stdout.write(sys.stdin.read().replace('2.0', '3.0'))",
        "sys.stdout.write('def (')",
        "sys.stdout.buffer.write(b'\\xff')",
    ],
)
def test_a_formatter_that_fails_or_changes_more_is_not_followed(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _fake_ruff(tmp_path, script)
    monkeypatch.setattr(ruff_format, "executable", lambda: program)
    (tmp_path / "ruff.toml").write_text("")
    assert FILLED in _fixed(tmp_path)


def test_without_ruff_or_its_configuration_the_layout_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ruff_format, "executable", lambda: None)
    (tmp_path / "ruff.toml").write_text("")
    assert FILLED in _fixed(tmp_path)
    monkeypatch.setattr(ruff_format, "executable", lambda: str(tmp_path / "nothing"))
    assert FILLED in _fixed(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 60\n", True),
        (".ruff.toml", "", True),
        ("pyproject.toml", "[tool.ruff]\n[tool.black]\n", False),
        ("pyproject.toml", "[tool.mypy]\n", False),
        ("pyproject.toml", "[tool.ruff\n", False),
    ],
)
def test_a_project_asks_by_configuring_ruff(
    name: str, text: str, expected: bool, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    (tmp_path / "inner").mkdir()
    assert ruff_format.wanted(tmp_path / "inner") is expected


def test_ranges_of_changed_lines() -> None:
    before, after = "a\nb\nc\nd\n", "a\nx\ny\nc\nd\ne\n"
    assert list(ruff_format.changed_lines(before, after)) == [(2, 3), (6, 6)]
    assert not list(ruff_format.changed_lines(before, "a\nd\n"))


def test_ruff_itself_formats_the_range(tmp_path: Path) -> None:
    if ruff_format.executable() is None:
        pytest.skip("ruff is not installed")
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 45\n")
    text = _fixed(tmp_path)
    assert "        kept   =   x+1\n" in text
    assert "        return   y+kept\n" in text
    assert "        y = x * torch.full(\n            (), 2.0, device=x.device\n        )\n" in text
