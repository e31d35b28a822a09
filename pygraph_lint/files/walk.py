"""Which files to look at: folders walked, `.gitignore` and exclusions honoured, links not followed
in circles.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pygraph_lint.errors import SettingsError
from pygraph_lint.files.modules import Root
from pygraph_lint.files.notebooks import SUFFIX
from pygraph_lint.files.paths import exists, is_file, is_folder
from pygraph_lint.files.selection import matches_glob
from pygraph_lint.files.settings import Resolver, Settings

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class _Ignores:
    """The ``.gitignore`` files that hold in a folder, innermost last."""

    def __init__(self, specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._specs = specs

    @classmethod
    def above(cls, folder: Path) -> _Ignores:
        """Those of the folders above ``folder``, up to the repository's top; none outside a
        repository.
        """
        if exists(folder / ".git"):
            return cls()
        chain: list[Path] = []
        for above in folder.parents:
            if above.name in ("site-packages", "dist-packages"):
                return cls()
            chain.append(above)
            if exists(above / ".git"):
                ignores = cls()
                for outer in reversed(chain):
                    ignores = ignores.entering(outer)
                # Who names an ignored folder wants it looked into.
                return cls() if ignores.ignores(folder.as_posix(), True) else ignores
        return cls()

    def entering(self, folder: Path) -> _Ignores:
        """These and the ones that ``folder`` itself adds."""
        specs = self._specs
        for path in (folder / ".git" / "info" / "exclude", folder / ".gitignore"):
            try:
                text = path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            if text.strip():
                from pathspec import GitIgnoreSpec

                try:
                    spec = GitIgnoreSpec.from_lines(text.splitlines())
                except ValueError as error:
                    raise SettingsError(f"{path}: cannot be read: {error}") from None
                specs = (*specs, (f"{folder.as_posix().rstrip('/')}/", spec))
        return self if specs is self._specs else _Ignores(specs)

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether the entry at ``path`` (absolute, posix) is ignored."""
        for prefix, spec in reversed(self._specs):
            relative = path[len(prefix) :] + ("/" if is_folder else "")
            said = spec.check_file(relative).include
            if said is not None:
                return said
        return False


def excluded(path: Path, settings: Settings) -> bool:
    """Whether the settings' ``exclude`` or ``extend-exclude`` mean ``path``."""
    globs = settings.exclude + settings.extend_exclude
    return any(matches_glob(path, glob, settings.folder) for glob in globs)


def passed_over(path: Path, top: Path | None, settings: Settings) -> bool:
    """Whether a walk of the folder ``top`` (None: the root of all) passes over a file because of
    ``exclude`` or ``extend-exclude``.
    """
    plain, patterns = _names_and_patterns(settings)
    for part in (path, *path.parents):
        if part == top:
            return False
        if part.name in plain or any(matches_glob(part, g, settings.folder) for g in patterns):
            return True
    return False


def _names_and_patterns(settings: Settings) -> tuple[set[str], list[str]]:
    """The globs of what is excluded: those that are names only, which spare most names the full
    match, and the others.
    """
    globs = settings.exclude + settings.extend_exclude
    plain = {glob for glob in globs if not set(glob) & set("*?[/")}
    return plain, [glob for glob in globs if glob not in plain]


Unreadable = Callable[[Path, OSError], None]


def files_below(folder: Path, resolver: Resolver, unreadable: Unreadable) -> Iterator[Path]:
    """Every Python file and notebook below ``folder`` (absolute), in order of names; ``unreadable``
    is told each folder that cannot be read.
    """
    yield from _walk(folder, resolver, _Ignores.above(folder), (".py", SUFFIX), True, unreadable)


def files_of_root(root: Root, resolver: Resolver) -> Iterator[Path]:
    """Every Python file that is read together in ``root``."""
    if root.only:
        path = root.base / root.only
        if is_folder(path):
            yield from _walk(path, resolver, _Ignores.above(path))
        else:
            yield path
        return
    yield from _walk(root.base, resolver, _Ignores.above(root.base), recursive=root.recursive)


def _walk(
    folder: Path,
    resolver: Resolver,
    ignores: _Ignores,
    endings: tuple[str, ...] = (".py",),
    recursive: bool = True,
    unreadable: Unreadable = lambda folder, error: None,
) -> Iterator[Path]:
    settings = resolver.of(folder)
    plain, patterns = _names_and_patterns(settings)
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        unreadable(folder, error)
        return
    if settings.respect_gitignore:
        ignores = ignores.entering(folder)
    for entry in found:
        name = entry.name
        below = entry.is_dir(follow_symlinks=False)
        if not below and not name.endswith(endings):
            continue
        if name in plain:
            continue
        path = folder / name
        if any(matches_glob(path, glob, settings.folder) for glob in patterns):
            continue
        if settings.respect_gitignore and ignores.ignores(path.as_posix(), below):
            continue
        if not below:
            if not (entry.is_symlink() and is_folder(path)):
                yield path
            continue
        if is_file(path / "pyvenv.cfg"):
            continue
        if recursive or is_file(path / "__init__.py"):
            yield from _walk(path, resolver, ignores, endings, True, unreadable)
