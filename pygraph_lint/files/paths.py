"""Questions about paths whose answer is no where a folder may not be looked into."""

from __future__ import annotations

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
