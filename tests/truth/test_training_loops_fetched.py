"""Bringing the sources of marked training loops."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.training_loops.fetch import FetchError, fetch
from benchmarks.training_loops.marks import Package


def _repository(folder: Path) -> str:
    """A repository ``me/it`` below a folder; returns its commit."""
    place = folder / "me" / "it.git"
    place.mkdir(parents=True)
    git = ["git", "-C", str(place), "-c", "user.name=me", "-c", "user.email=me@example.org"]
    (place / "train.py").write_text("loss.backward()\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *command], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_commit_of_a_public_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = _repository(tmp_path / "origin")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{tmp_path}/origin/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    package = Package("me/it", commit, "git")
    fetch([package], tmp_path / "packages")
    target = tmp_path / "packages" / package.folder
    assert (target / "train.py").read_text() == "loss.backward()\n"
    assert (target / "pygraph-lint.toml").is_file()
    with pytest.raises(FetchError, match="could not fetch me/it"):
        fetch([Package("me/it", "0" * 40, "git")], tmp_path / "packages")
