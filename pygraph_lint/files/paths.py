"""Questions about paths; what may not be looked at is not there."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def is_file(path: Path) -> bool:
    """Whether a file is there, as far as can be told."""
    try:
        return path.is_file()
    except OSError:
        return False


def is_folder(path: Path) -> bool:
    """Whether a folder is there, as far as can be told."""
    try:
        return path.is_dir()
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Whether anything is there, as far as can be told."""
    try:
        return path.exists()
    except OSError:
        return False


def stamps(paths: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """Size and time of change of those files that are there."""
    found = {}
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            found[path] = (status.st_size, status.st_mtime_ns)
    return found
