"""The command in a project of its own, as a fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.support import Lint


@pytest.fixture
def lint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lint:
    """The command in an empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'sample'\n")
    monkeypatch.chdir(folder)
    return Lint(folder, capsys)
