"""Copies of installed packages for the linter, as they are or without annotations."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.lint_truth.stripping import without_annotations


def copy_packages(
    roots: Mapping[str, str], folder: Path, strip: bool
) -> tuple[dict[str, str], list[str]]:
    """Copy each package's Python files to `folder`/package/package.

    Given import name -> the package's folder; returns the same for the copies, and the files
    whose annotations could not be stripped (they are copied as they are).
    """
    copies: dict[str, str] = {}
    kept: list[str] = []
    for name, root in roots.items():
        target = folder / name / name
        for path in sorted(Path(root).rglob("*.py")):
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            if strip and not _strip(copy):
                kept.append(f"{name}/{path.relative_to(root).as_posix()}")
        copies[name] = os.fspath(target) + os.sep
    return copies, kept


def _strip(path: Path) -> bool:
    try:
        path.write_bytes(without_annotations(path.read_bytes().decode()).encode())
    except (SyntaxError, UnicodeDecodeError):
        return False
    return True


def relative_to(roots: Mapping[str, str]) -> Callable[[str], str | None]:
    """A function from a file's path to "package/path.py", or None outside of `roots`."""

    def relative(filename: str) -> str | None:
        for name, root in roots.items():
            if filename.startswith(root):
                return f"{name}/{filename[len(root) :].replace(os.sep, '/')}"
        return None

    return relative
