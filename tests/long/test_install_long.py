"""The wheel in a fresh environment, and the hooks under the real pre-commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pygraph_lint.rules.catalogue import load
from tests.lint.support import BOTH, BOTH_FIXED, CLEAN, REPOSITORY
from tests.lint.test_notebooks import BOOK, notebook


def _run(
    command: list[str], cwd: Path, expected: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    return done


def test_wheel_in_a_fresh_environment(tmp_path: Path) -> None:
    python = str(tmp_path / "env" / "bin" / "python")
    command = str(tmp_path / "env" / "bin" / "pygraph-lint")
    _run([sys.executable, "-m", "venv", "env"], tmp_path)
    _run([sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", ".", str(REPOSITORY)], tmp_path)
    (wheel,) = tmp_path.glob("pygraph_lint-*.whl")
    _run([python, "-m", "pip", "install", "-q", str(wheel)], tmp_path)
    _run([python, "-c", "import torch"], tmp_path, expected=1)
    assert len(_run([command, "rules"], tmp_path).stdout.splitlines()) == len(load())
    (tmp_path / "model.py").write_text(BOTH)
    _run([command, "--fix", "model.py"], tmp_path, expected=1)
    assert (tmp_path / "model.py").read_text() == BOTH_FIXED


def test_hooks_under_pre_commit(tmp_path: Path) -> None:
    """The fix hook fixes and fails once, the check hook fails until the code is right."""
    # pre-commit installs what is committed, so the hooks' repository is a fresh one of this tree.
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    parts = ["pyproject.toml", "LICENSE", ".pre-commit-hooks.yaml"]
    folders = ["pygraph_lint", "packaging", "rules"]
    _run(["cp", "-r", *(str(REPOSITORY / name) for name in parts + folders), "."], hooks)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "hooks"]):
        _run(["git", *identity, *command], hooks)
    revision = _run(["git", "rev-parse", "HEAD"], hooks).stdout.strip()

    user = tmp_path / "user"
    user.mkdir()
    (user / "model.py").write_text(BOTH)
    (user / "book.ipynb").write_bytes(BOOK)
    (user / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: {hooks}\n    rev: {revision}\n"
        "    hooks:\n      - id: pygraph-lint-fix\n      - id: pygraph-lint\n"
    )
    _run(["git", "init", "-q"], user)
    _run(["git", "add", "-A"], user)
    pre_commit = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
    home = str(tmp_path / "pre-commit")

    first = _run(pre_commit, user, expected=1, PRE_COMMIT_HOME=home).stdout
    assert "files were modified by this hook" in first
    assert (user / "model.py").read_text() == BOTH_FIXED
    fixed = BOOK.replace(b"x.shape[0]).to(x.device)", b"x.shape[0], device=x.device)")
    assert (user / "book.ipynb").read_bytes() == fixed
    second = _run(pre_commit, user, expected=1, PRE_COMMIT_HOME=home).stdout
    assert "files were modified" not in second
    assert "model.py:12:16: PG201" in second
    assert "book.ipynb:cell 3:5:27: PG201" in second
    (user / "model.py").write_text(CLEAN)
    (user / "book.ipynb").write_bytes(notebook())
    _run(pre_commit, user, PRE_COMMIT_HOME=home)
