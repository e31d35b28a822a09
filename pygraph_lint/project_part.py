"""The part of a project that can change the findings of a few files.

To check one file of a large project the others need not all be analysed: only what the file leads
to, and what leads to the file. The first is found by linking what was read so far and asking what
was missing, until nothing is; the second are the files that import it, directly or through others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, TypeAlias

from pygraph_lint.analysis.unread import Unread
from pygraph_lint.files.project import last_name

_DEFINED = re.compile(rb"^(?:def|[ \t]*class)[ \t]+(\w+)", re.MULTILINE)

_FROM = re.compile(rb"\bfrom[ \t]*([.\w]+)[ \t]*import\b[ \t]*(\([^)]*\)|(?:[^\r\n#\\]|\\\r?\n)*)")
_WORD = re.compile(rb"\w+")
_MEMBER = re.compile(rb"\.(\w+)")


_Names: TypeAlias = "tuple[frozenset[bytes], frozenset[bytes]]"  # defined, told by their names


def _calls_one(text: bytes, methods: frozenset[bytes]) -> bool:
    """Whether a text calls one of some methods on another object than ``self``."""
    if not methods:
        return False
    called = re.compile(rb"\.(?:" + b"|".join(map(re.escape, sorted(methods))) + rb")[ \t]*\(")
    return any(not text.endswith(b"self", 0, each.start()) for each in called.finditer(text))


def is_part(files: Collection[str], every: Collection[str]) -> bool:
    """Whether some files are so few of all that the rest need not be read."""
    return 3 * len(files) < len(every)


def members(text: bytes) -> frozenset[bytes]:
    """The names of all attributes that a text has."""
    return frozenset(_MEMBER.findall(text))


class Starts(NamedTuple):
    """The ``files`` in which a call path to others may start, and further ``callers`` of these, of
    which it is not known who calls them.
    """

    files: frozenset[str]
    callers: frozenset[str]


class Importers:
    """Which files may import a file, of all files by the words of their imports.

    Imports are compared by the last part of names, and what a package passes on by the names that a
    text has. A file may be too many. One is too few only where what imports the file is itself
    imported from a package that passes it on. Files that call a method of the file on any object
    count as importers, where its name alone may say which method is meant. Who imports these is
    left out where it is most of the project: what such a file says of its calls is known then.
    """

    def __init__(
        self,
        words: Mapping[str, frozenset[bytes]],
        text: Callable[[str], bytes],
        told: Callable[[str], frozenset[bytes]] = lambda _: frozenset(),
    ) -> None:
        """``words`` are those of each file's imports, ``text`` gives the content of a path, and
        ``told`` the methods of a file that may be meant by their names alone.
        """
        self._text = text
        self._words = words
        self._told = told
        self._found: dict[str, tuple[_Names, Starts]] = {}
        self._by_word: dict[bytes, list[str]] = {}
        for name, found in words.items():
            for word in found:
                self._by_word.setdefault(word, []).append(name)

    def of(self, names: Iterable[str]) -> Starts:
        """``names`` and the files that may import them, directly or through others."""
        found = [self._of_one(name) for name in names]
        files, callers = (frozenset(chain.from_iterable(part)) for part in zip(*found, strict=True))
        return Starts(files, callers - files)

    def _of_one(self, given: str) -> Starts:
        names = defined, told = frozenset(_DEFINED.findall(self._text(given))), self._told(given)
        held = self._found.get(given)
        if held is not None and held[0] == names:
            return held[1]
        reached = self._reached({given, *self._through_packages(given, defined)}, given)
        callers = set(self._callers(given, told)) - reached
        for caller in sorted(callers):
            wider = reached | self._reached({caller}, caller)
            reached = wider if is_part(wider, self._words) else reached
        found = Starts(frozenset(reached), frozenset(callers - reached))
        self._found[given] = (names, found)
        return found

    def _reached(self, names: set[str], given: str) -> set[str]:
        """Some files and those that import them by name, directly or through others. Of a package
        other than the ``given`` one, what it passes on is looked for elsewhere.
        """
        reached, front = set(names), list(names)
        while front:
            name = front.pop()
            if name.endswith("__init__.py") and name != given:
                continue
            new = set(self._by_word.get(last_name(name), ())) - reached
            reached |= new
            front += new
        return reached

    def _callers(self, given: str, methods: frozenset[bytes]) -> list[str]:
        """The other files that call one of some methods on any object."""
        others = (name for name in self._words if name != given) if methods else ()
        return [name for name in others if _calls_one(self._text(name), methods)]

    def edited(self, before: bytes, after: bytes) -> None:
        """Forget what depends on the attributes in a file's text, which has changed; the words of
        its imports have not.
        """
        old, new = members(before), members(after)
        moved = _FROM.findall(before) != _FROM.findall(after)
        for given, ((defined, told), _) in list(self._found.items()):
            uses = defined.isdisjoint(old) != defined.isdisjoint(new)
            if moved or uses or _calls_one(before, told) != _calls_one(after, told):
                del self._found[given]

    def _through_packages(self, name: str, defined: frozenset[bytes]) -> Iterator[str]:
        """Files that import from a package around a file, and have one of its names."""
        direct = self._by_word.get(last_name(name), ())
        if name.endswith("__init__.py") or not any(each.endswith("__init__.py") for each in direct):
            return
        packages = {part.encode(errors="surrogateescape") for part in name.split("/")[:-1]}
        any_package = b"|".join(map(re.escape, packages)) or rb"(?!)"
        whole = re.compile(rb"\bimport[^\n]*\b(?:" + any_package + rb")\b")
        using = {each for word in (b".", *packages) for each in self._by_word.get(word, ())}
        for other in using - {name}:
            if other.endswith("__init__.py"):
                continue
            named = not defined.isdisjoint(self._words[other])
            passed_on = named and self._from_a_package(other, defined)
            if passed_on or self._has_member(other, whole, defined):
                yield other

    @cached_property
    def _packages(self) -> frozenset[bytes]:
        """The last names of all packages; none for those that are named by dots alone."""
        packages = (name for name in self._words if name.endswith("__init__.py"))
        return frozenset((b"", *map(last_name, packages)))

    def _from_a_package(self, file: str, names: frozenset[bytes]) -> bool:
        """Whether a file imports one of the names from a package: from a module it is another."""
        return any(
            match[1].rpartition(b".")[2] in self._packages
            and not names.isdisjoint(_WORD.findall(match[2]))
            for match in _FROM.finditer(self._text(file))
        )

    def _has_member(self, file: str, whole: re.Pattern[bytes], names: frozenset[bytes]) -> bool:
        """Whether a file imports a package as a whole, and has an attribute of one of the names."""
        text = self._text(file)
        return whole.search(text) is not None and not names.isdisjoint(members(text))


class UnreadFiles(Unread):
    """The modules that were not analysed; the text of a file says which names it cannot bind."""

    def __init__(
        self,
        files: Mapping[str, str],
        text: Callable[[str], bytes],
        said: dict[tuple[str, str], bool] | None = None,
        definers: Callable[[str], Iterable[str]] = lambda _: (),
    ) -> None:
        """``files`` are paths by module name, ``text`` gives the content of a path. ``said`` is
        what is known of paths and words already, and grows. ``definers`` gives the paths of all
        files that may have a method of a name.
        """
        self._files = files
        self._modules = {file: module for module, file in files.items()}
        self._text = text
        self._said = said if said is not None else {}
        self._definers = definers
        self._defining: dict[str, list[str]] = {}
        self._texts: dict[str, bytes] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def same_answers(self, text: Callable[[str], bytes], names: Iterable[str]) -> bool:
        """Whether what was asked so far has the same answers with other texts of some files."""
        files = set(names)
        same = all(self._left_out(method) == held for method, held in self._defining.items())
        return same and all(
            (word.encode(errors="surrogateescape") in text(file)) == answer
            for (module, word), answer in self._known.items()
            if (file := self._files.get(module)) in files
            and word
            and not file.endswith("__init__.py")
        )

    def has(self, module: str) -> bool:
        return module in self._files

    def defining(self, method: str) -> Collection[str]:
        if method not in self._defining:
            self._defining[method] = self._left_out(method)
        return self._defining[method]

    def _left_out(self, method: str) -> list[str]:
        return [self._modules[file] for file in self._definers(method) if file in self._modules]

    def may_define(self, module: str, word: str) -> bool:
        key = (module, word)
        if key not in self._known:
            self._known[key] = self._says(module, word)
        return self._known[key]

    def _says(self, module: str, word: str) -> bool:
        file = self._files.get(module)
        if file is None:
            return False
        if not word or file.endswith("__init__.py"):
            return True  # a package passes on names that its text does not have
        said = self._said.get((file, word))
        if said is None:
            if file not in self._texts:
                self._texts[file] = self._text(file)
            said = word.encode(errors="surrogateescape") in self._texts[file]
            self._said[file, word] = said
        return said


@dataclass(frozen=True, slots=True)
class Basis:
    """What the findings of a file rest on: the files in which a call path to it may start, the
    content of those that were read, by digest, and the answers that the others gave.
    """

    matter: frozenset[str]
    starts: Starts
    read: Mapping[str, bytes]
    unread: UnreadFiles
