"""Where a project begins, what its modules are called, and which of its files can matter.

All of this depends only on where a file lies, never on which paths were given: that is why checking
one file gives its slice of checking all.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from pygraph_lint.files.cache import Signature, digest
from pygraph_lint.files.notebooks import SUFFIX
from pygraph_lint.files.paths import exists, is_file

MARKERS = ("pyproject.toml", "pygraph-lint.toml", "setup.py", "setup.cfg", ".git")
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True, slots=True)
class Root:
    """The folder whose files are read together.

    ``base`` is where module names start. ``recursive`` is False where nothing marks a project: then
    only the files of the folder itself and the packages in it are read. ``only`` names the one file
    or package to read.
    """

    base: Path
    recursive: bool = True
    only: str = ""


class Roots:
    """Finds the root of a folder's files, remembering what it saw."""

    def __init__(self) -> None:
        self._known: dict[Path, Root] = {}

    def of(self, file: Path) -> Root:
        """The root of a file, given by absolute path."""
        folder = file.parent
        if folder.name in _INSTALLED:
            return Root(folder, only=file.name)
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = self._find(folder)
        return known

    def _find(self, folder: Path) -> Root:
        for above in (folder, *folder.parents):
            if above.parent.name in _INSTALLED:
                return Root(above.parent, only=above.name)
            if any(exists(above / marker) for marker in MARKERS):
                return Root(above)
        while is_file(folder / "__init__.py"):
            folder = folder.parent
        return Root(folder, recursive=False)


def module_name(relative: str, packages: Mapping[str, bool]) -> tuple[str, bool]:
    """The dotted name of the file at ``relative`` (posix, below the base), and whether it is a
    package's ``__init__``.

    ``packages`` says of each folder (relative, posix) whether it has an ``__init__.py``. A file in
    a package is named from the topmost package folder, any other from the base, without a leading
    ``src``.
    """
    path = PurePosixPath(relative)
    parts = list(path.parts[:-1])
    start = len(parts)
    while start and packages.get("/".join(parts[:start]), False):
        start -= 1
    if start == len(parts):
        start = 1 if parts[:1] == ["src"] else 0
    stem = path.name.split(".", 1)[0]
    if path.suffix == SUFFIX:
        stem += "-notebook"  # no module can be called so
    is_package = stem == "__init__"
    names = parts[start:] if is_package else [*parts[start:], stem]
    return ".".join(names) or stem, is_package


def places(modules: Mapping[str, str]) -> dict[str, str]:
    """The dotted names of modules, packages and plain folders by their paths without suffix.
    ``modules`` are names by path.
    """
    found = {}
    for relative, module in modules.items():
        path = PurePosixPath(relative)
        of_package = path.name == "__init__.py"
        found[str(path.parent if of_package else path.with_suffix(""))] = module
    for path in [PurePosixPath(each).parent for each in found]:
        for folder in (path, *path.parents):
            found.setdefault(str(folder), ".".join(folder.parts).removeprefix("src."))
    return found


def beside(
    relative: str, words: Iterable[bytes], known: Mapping[str, str], packages: Container[str]
) -> tuple[tuple[str, str], ...]:
    """What the imports of a file find elsewhere than their names say: pairs of the first name and
    the dotted name of what Python finds for it.

    ``words`` are those of the file's imports, ``known`` is of `places`, ``packages`` are the
    folders that are packages. A script finds what lies in its own folder first, then what lies in
    the base, then in the folders between, which it may have put on the path; a file of a package
    finds what lies in its own folder last.
    """
    own = PurePosixPath(relative).parent
    folders = [PurePosixPath(), *own.parents[:-1]]
    folders.insert(len(folders) if str(own) in packages else 0, own)
    prefixes = ["" if str(each) == "." else f"{each}/" for each in folders]
    found = []
    for word in sorted(words):
        name = word.decode(errors="surrogateescape")
        if name in sys.stdlib_module_names or name in _NEVER_BESIDE:
            continue
        whole = next((known[path] for each in prefixes if (path := each + name) in known), name)
        if whole != name:
            found.append((name, whole))
    return tuple(found)


_NEVER_BESIDE = ("torch", "numpy")  # whose functions have a meaning here

# --- the prefilter ------------------------------------------------------------------------------

_IMPORT = re.compile(rb"\bimport\b")
_FROM = re.compile(rb"[ \t]*from[ \t]*(\.*)[ \t]*([\w.]*)[ \t]*\Z")
_NAMES = re.compile(rb"[ \t\\\r\n]*\(([^)]*)\)|((?:[^\r\n#\\]|\\\r?\n)*)")
_WORD = re.compile(rb"[^\W\d]\w*")
_METHOD = re.compile(rb"\n[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)\(\s*(?:self|cls)\b")


def says_torch(data: bytes) -> bool:
    """Whether the bytes of a file mention torch at all."""
    return b"torch" in data


def imported_words(data: bytes) -> frozenset[bytes]:
    """Every name that stands in an import of the file: a superset of the last parts of modules it
    imports.

    ``b"."`` among them says that the file imports from its own or an outer package.
    """
    words: set[bytes] = set()
    for match in _IMPORT.finditer(data):
        before = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()].rpartition(b";")[2]
        source = _FROM.match(before)
        if source is not None:
            if not source[2]:
                words.add(b".")
            words.update(source[2].split(b"."))
        elif before.strip():
            continue
        names = _NAMES.match(data, match.end())
        if names is not None:
            words.update(_WORD.findall(names[1] or names[2] or b""))
    words.discard(b"")
    return frozenset(words)


@dataclass(frozen=True, slots=True)
class Known:
    """What the index keeps of one file."""

    signature: Signature
    digest: bytes
    torch: bool
    words: frozenset[bytes]
    methods: frozenset[bytes]


def described(data: bytes, signature: Signature) -> Known:
    """What the index keeps of a file with this content."""
    signature = replace(signature, size=len(data))
    methods = frozenset(_METHOD.findall(data))
    return Known(signature, digest(data), says_torch(data), imported_words(data), methods)


def relevant(files: Iterable[tuple[str, bool, frozenset[bytes]]]) -> set[str]:
    """The files whose facts can matter, of ``(relative path, says torch, imported words)``.

    Those that say torch, and those that import or are imported by one that matters. Imports are
    compared by the last part of names only, which can keep a file too many but never one too few.
    """
    pending: dict[str, frozenset[bytes]] = {}
    by_name: dict[bytes, list[str]] = {}
    importers: dict[bytes, list[str]] = {}
    front: list[str] = []
    words_of: dict[str, frozenset[bytes]] = {}
    for relative, torch, words in files:
        words_of[relative] = words
        if torch:
            front.append(relative)
            continue
        pending[relative] = words
        by_name.setdefault(last_name(relative), []).append(relative)
        if relative.endswith("__init__.py"):
            by_name.setdefault(b".", []).append(relative)
        for word in words:
            importers.setdefault(word, []).append(relative)
    kept = set(front)
    while front:
        relative = front.pop()
        names = [last_name(relative)]
        if relative.endswith("__init__.py"):
            names.append(b".")
        near = [other for word in words_of[relative] for other in by_name.get(word, ())]
        near += [other for name in names for other in importers.get(name, ())]
        for other in near:
            if pending.pop(other, None) is not None:
                kept.add(other)
                front.append(other)
    return kept


def last_name(relative: str) -> bytes:
    """The last part of the name of the module at a path."""
    path = PurePosixPath(relative)
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return name.encode(errors="surrogateescape")
