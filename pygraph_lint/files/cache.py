"""What earlier runs found out, kept in the user's cache folder.

Three kinds of entry a project: an index of files (so that an unchanged file is not even read), the
facts of each file by its content, and the findings of the whole by the content of every file. An
entry carries the key it was made under and a checksum: whatever does not fit is ignored and made
again. Entries appear by renaming, so processes that write at once never see half of one.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pygraph_lint import __version__
from pygraph_lint.rules.catalogue import Rule, rules_folder

ENVIRONMENT = "PYGRAPH_LINT_CACHE_DIR"
_KEPT_VERSIONS = 3
_VERSION = re.compile(r"[0-9a-f]{32}")


def digest(*parts: bytes) -> bytes:
    """16 bytes that stand for ``parts``."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()


def default_folder() -> Path:
    """The folder for caches: what PYGRAPH_LINT_CACHE_DIR says, or the user's."""
    said = os.environ.get(ENVIRONMENT)
    if said:
        return Path(said)
    from platformdirs import user_cache_path

    return user_cache_path("pygraph-lint", appauthor=False)


def tool_key() -> str:
    """Stands for everything that shapes facts apart from the checked source: the tool, its rules,
    its Python.
    """
    package = Path(__file__).parent.parent
    files = {
        file.relative_to(package).as_posix(): file
        for kind in ("*.py", "*.json")
        for file in package.rglob(kind)
    }
    files |= {file.name: file for file in rules_folder().glob("PG*.md")}
    # Entries name classes by the modules that these are in, so a module's place counts, too.
    parts = [part for name in sorted(files) for part in (name.encode(), files[name].read_bytes())]
    version = f"{__version__} {sys.version_info[:3]}".encode()
    return digest(version, *parts).hex()


@dataclass(frozen=True, slots=True)
class Signature:
    """What the file system says of a file; another signature means a new look at its content."""

    size: int
    modified: int
    changed: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        """The signature in a ``stat`` result (times in nanoseconds)."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


class Cache:
    """One project's entries in the folder ``folder``; every method works, doing nothing, if
    ``folder`` is None.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @classmethod
    def of_project(cls, top: Path | None, base: Path, rules: Iterable[Rule] = ()) -> Cache:
        """The entries of the project at ``base``, below the folder ``top`` (None: no cache).

        ``rules`` are a user's own: other rules, other entries.
        """
        if top is None:
            return cls(None)
        mine = top / tool_key()
        own = [repr(rule).encode() for rule in rules]
        folder = mine / digest(str(base).encode(errors="surrogateescape"), *own).hex()
        try:
            if not mine.is_dir():
                mine.mkdir(parents=True, exist_ok=True)
                _drop_old_versions(top)
            (folder / "files").mkdir(parents=True, exist_ok=True)
        except OSError:
            return cls(None)
        return cls(folder)

    def load(self, name: str, key: bytes) -> Any:
        """The entry ``name`` if it was made under ``key``; None otherwise."""
        if self.folder is None:
            return None
        try:
            data = (self.folder / name).read_bytes()
            if data[:16] != key or data[16:32] != digest(data[32:]):
                return None
            return pickle.loads(data[32:])
        except Exception:  # whatever is wrong with an entry, it is only a cache
            return None

    def store(self, name: str, key: bytes, value: Any) -> None:
        """Write the entry ``name`` under ``key``."""
        if self.folder is None:
            return
        payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
        path = self.folder / name
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            temporary.write_bytes(key + digest(payload) + payload)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()

    def prune_files(self, kept: Iterable[str]) -> None:
        """Remove file entries other than those named."""
        if self.folder is None:
            return
        names = {name.removeprefix("files/") for name in kept}
        for path in (self.folder / "files").iterdir():
            if path.name not in names and not path.name.endswith(".tmp"):
                with suppress(OSError):
                    path.unlink()


def file_entry(relative: str) -> str:
    """The entry's name for the facts of the file at ``relative``."""
    return f"files/{digest(relative.encode(errors='surrogateescape')).hex()}"


def remove(top: Path) -> bool:
    """Remove every version's entries below ``top``, and nothing else; whether there were any."""
    folders = _versions(top) if top.is_dir() else []
    for path in folders:
        shutil.rmtree(path)
    return bool(folders)


def _versions(top: Path) -> list[Path]:
    return [path for path in top.iterdir() if _VERSION.fullmatch(path.name) and path.is_dir()]


def _drop_old_versions(top: Path) -> None:
    """Keep the caches of the last few versions of the tool only."""
    folders = sorted(_versions(top), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in folders[_KEPT_VERSIONS:]:
        shutil.rmtree(path, ignore_errors=True)
