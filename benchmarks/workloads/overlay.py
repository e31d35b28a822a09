"""Other sources for some modules of installed packages, without touching what is installed.

``python -m benchmarks.workloads.overlay FOLDER worker-arguments`` runs a worker that takes every
module whose file lies in FOLDER from there. ``FOLDER/manifest.json`` (see :mod:`fixing`) holds the
digest of each file that was replaced: a package of another version is refused.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

MANIFEST = "manifest.json"


class OverlayError(ImportError):
    """A folder of sources that does not belong to what is installed."""


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load(folder: Path) -> dict[str, Any]:
    """The folder's manifest. Raises ``OverlayError`` where there is none."""
    try:
        content: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError) as error:
        raise OverlayError(f"{folder} has no readable {MANIFEST}: {error}") from error
    return content


def summary(folder: Path) -> dict[str, Any]:
    """The manifest with the files' names only, for a result file."""
    manifest = load(folder)
    return {**manifest, "files": sorted(manifest["files"])}


class Finder:
    """An entry of ``sys.meta_path``: modules listed in the manifest come from the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, dict[str, Any]] = load(folder)["files"]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a replaced module; None for any other. Raises ``OverlayError`` if what is
        installed is not what was replaced.
        """
        spec = None
        stem = name.replace(".", "/")
        for file in (f"{stem}.py", f"{stem}/__init__.py"):
            if file not in self._files:
                continue
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is None or spec.origin is None:
                return None
            if digest(Path(spec.origin)) != self._files[file]["original"]:
                raise OverlayError(
                    f"{name} is not the version that {self._folder.name} was made from; "
                    "make it again",
                    name=name,
                )
            return importlib.util.spec_from_file_location(
                name,
                self._folder / file,
                submodule_search_locations=spec.submodule_search_locations,
            )
        return spec


def install(folder: Path) -> None:
    """Puts the folder before everything installed, for modules imported from now on."""
    sys.meta_path.insert(0, Finder(folder))  # type: ignore[arg-type]


def main() -> None:
    """Runs a worker over the folder named first."""
    install(Path(sys.argv.pop(1)))
    from benchmarks.workloads import worker

    worker.main()


if __name__ == "__main__":
    main()
