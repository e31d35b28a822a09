"""The part of a project that can change the findings of a few files.

To check one file of a large project the others need not all be analysed: only what the file leads
to, and what leads to the file. The first is found by linking what was read so far and asking what
was missing, until nothing is; the second are the files that import it, directly or through others.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple, TypeAlias

from pygraph_lint.analysis.program.unanalysed import UnanalysedModules
from pygraph_lint.files.modules import last_name

_DEFINED = re.compile(rb"^(?:def|[ \t]*class)[ \t]+(\w+)[ \t]*[(:\[]", re.MULTILINE)

_FROM = re.compile(rb"\bfrom[ \t]*([.\w]+)[ \t]*import\b[ \t]*(\([^)]*\)|(?:[^\r\n#\\]|\\\r?\n)*)")
_WORD = re.compile(rb"\w+")
_MEMBER = re.compile(rb"\.(\w+)")
_BEHIND = re.compile(rb"\bimport\b([^\n]*)")
# What begins at the start of a line, the names that it defines, and those that it imports anew.
_STATEMENT = re.compile(rb"^[A-Za-z_@]", re.MULTILINE)
_DEFINITION = re.compile(rb"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)", re.MULTILINE)
_DEFINING = re.compile(
    rb"^[ \t]*(?:(?:def|class)[ \t]+(\w+)|([\w, \t]+?)(?::[^=\n]*)?=(?!=))", re.MULTILINE
)
_RENAMED = re.compile(rb"\b(\w+)[ \t]+as[ \t]+(?!\1\b)(\w+)")
# What is no name that others import.
_SPECIAL = frozenset(map(str.encode, (*keyword.kwlist, "__all__", "__name__")))


# What leads to a caller is left out where it is so many files, or most of the project.
_FROM_CALLERS = 200
# From so many files on, what leads to importers is left out, too, where it is most of the project.
_LARGE = 1000

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


class _Block(NamedTuple):
    """A statement at the top of a file: the names that it defines, and all its words."""

    names: frozenset[bytes]
    words: frozenset[bytes]


def _blocks(text: bytes) -> Iterator[_Block]:
    """The statements at the top of a text; a text in quotes may count as several."""
    begins = [each.start() for each in _STATEMENT.finditer(text)]
    start = begins[0] if begins else 0
    for begin, end in pairwise([*begins, len(text)]):
        if not text.startswith(b"@", begin):  # which belongs to what it decorates
            block, start = text[start:end], end
            defined = _DEFINITION.findall(block)
            if not defined:
                defined = _WORD.findall(b" ".join(chain.from_iterable(_DEFINING.findall(block))))
                for name, other in _RENAMED.findall(block):
                    yield _Block(frozenset((other,)), frozenset((name,)))
            yield _Block(frozenset(defined) - _SPECIAL, frozenset(_WORD.findall(block)))


def _using(blocks: Iterable[_Block], names: frozenset[bytes]) -> list[_Block]:
    """The statements that have some of the names, with these alone."""
    found = (_Block(each.names & names, each.words & names) for each in blocks)
    return [each for each in found if each.names or each.words]


def _members(text: bytes) -> frozenset[bytes]:
    """The names of all attributes that a text has; all words where some may come from a star."""
    return frozenset((_WORD if b"import *" in text else _MEMBER).findall(text))


class Starts(NamedTuple):
    """The ``files`` in which a call path to others may start, and further ``callers`` of these, of
    which it is not known who calls them.
    """

    files: frozenset[str]
    callers: frozenset[str]


class Importers:
    """Which files may lead to a file, of all files by the words of their imports.

    A file that imports it counts, directly or through packages that pass its names on; then those
    that import a name of such a file which rests on the name it imports, and so on. Files that call
    a method of the file on any object count, too, where its name alone may say which method is
    meant. What leads to these is left out where it is too much: what such a file says of its calls
    is known then. Texts are compared by words: a file may be too many.
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
        self._found: dict[str, tuple[_Names, frozenset[bytes], Starts]] = {}
        self._blocks: dict[str, list[_Block]] = {}
        self._members: dict[str, frozenset[bytes]] = {}
        self._imported: dict[str, tuple[frozenset[bytes], frozenset[bytes]]] = {}
        self._by_word: dict[bytes, list[str]] = {}
        for name, found in words.items():
            for word in found:
                self._by_word.setdefault(word, []).append(name)

    def of(self, names: Iterable[str]) -> Starts:
        """``names`` and the files that may lead to them, directly or through others."""
        found = [self._of_one(name) for name in names]
        files, callers = (frozenset(chain.from_iterable(part)) for part in zip(*found, strict=True))
        return Starts(files, callers - files)

    def _of_one(self, given: str) -> Starts:
        names = defined, told = frozenset(_DEFINED.findall(self._text(given))), self._told(given)
        held = self._found.get(given)
        if held is not None and held[0] == names:
            return held[2]
        direct = {*self._by_word.get(last_name(given), ()), *self._through_packages(given, defined)}
        reached = {given: frozenset[bytes](), **dict.fromkeys(direct - {given}, frozenset[bytes]())}
        if is_part(reached, self._words):
            wider = dict(reached)
            self._reach(wider, dict.fromkeys(direct - {given}, defined), len(self._words))
            large = len(self._words) >= _LARGE and not is_part(wider, self._words)
            reached = reached if large else wider
        callers = set(self._callers(given, told)) - reached.keys()
        for caller in sorted(callers) if is_part(reached, self._words) else ():
            wider = dict(reached)
            self._reach(wider, {caller: told}, _FROM_CALLERS)
            few = len(wider) < _FROM_CALLERS + len(reached)
            reached = wider if few and is_part(wider, self._words) else reached
        found = Starts(frozenset(reached), frozenset(callers - reached.keys()))
        self._found[given] = (names, defined.union(told, *reached.values()), found)
        return found

    def _reach(
        self,
        reached: dict[str, frozenset[bytes]],
        new: Mapping[str, frozenset[bytes]],
        most: int,
    ) -> None:
        """Add new files, and those that use what rests on the names that these use; not all of
        them where that is most of the project, or more than ``most``.
        """
        front, most = list(new.items()), len(reached) + most
        while front and is_part(reached, self._words) and len(reached) < most:
            name, used = front.pop()
            before = reached.get(name)
            if before is not None and used <= before:
                continue
            known = self._resting_on(name, before or frozenset[bytes]())
            reached[name] = used | (before or frozenset[bytes]())
            further = self._resting_on(name, reached[name]) - known
            front += ((user, further) for user in self._users(name, further) if further)

    def _users(self, name: str, defined: frozenset[bytes]) -> Iterator[str]:
        """The files that use one of the names that a file defines."""
        for user in self._by_word.get(last_name(name), ()):
            if not defined.isdisjoint(self._words[user]) or self._has_one(user, defined):
                yield user
        yield from self._through_packages(name, defined)

    def _resting_on(self, name: str, used: frozenset[bytes]) -> frozenset[bytes]:
        """What a file defines by some names, or by what rests on them."""
        found, before = used, frozenset[bytes]()
        defined = frozenset[bytes]()
        while found != before:
            before = found
            using = (each for each in self._blocks_of(name) if not found.isdisjoint(each.words))
            defined = defined.union(*(each.names for each in using))
            found = used | defined
        return defined

    def _blocks_of(self, name: str) -> list[_Block]:
        if name not in self._blocks:
            self._blocks[name] = list(_blocks(self._text(name)))
        return self._blocks[name]

    def _callers(self, given: str, methods: frozenset[bytes]) -> list[str]:
        """The other files that call one of some methods on any object."""
        others = (name for name in self._words if name != given) if methods else ()
        return [name for name in others if _calls_one(self._text(name), methods)]

    def edited(self, name: str, before: bytes, after: bytes) -> None:
        """Forget what depends on the text of a file, which has changed; the words of its imports
        have not.
        """
        self._imported.pop(name, None)
        self._members.pop(name, None)
        old = self._blocks.pop(name, None)
        others = [each for each in self._found.items() if each[0] != name]
        if not others:
            return
        moved = _FROM.findall(before) != _FROM.findall(after)
        old, new = old or list(_blocks(before)), list(_blocks(after))
        self._blocks[name] = new
        members = _members(before) ^ _members(after)
        for given, ((_, told), asked, _) in others:
            uses = not members.isdisjoint(asked) or _using(old, asked) != _using(new, asked)
            if moved or uses or _calls_one(before, told) != _calls_one(after, told):
                del self._found[given]

    def _through_packages(self, name: str, defined: frozenset[bytes]) -> Iterator[str]:
        """Files that import from a package around a file, and have one of its names."""
        passing = (name, *self._by_word.get(last_name(name), ()))
        if not defined or not any(each.endswith("__init__.py") for each in passing):
            return
        packages = {part.encode(errors="surrogateescape") for part in name.split("/")[:-1]}
        using = {each for word in (b".", *packages) for each in self._by_word.get(word, ())}
        for other in using - {name}:
            if other.endswith("__init__.py"):
                continue
            named = not defined.isdisjoint(self._words[other])
            passed_on = named and self._from_a_package(other, defined)
            imported = packages & self._words[other]
            whole = imported and not imported.isdisjoint(self._imports(other)[1])
            if passed_on or (whole and self._has_one(other, defined)):
                yield other

    @cached_property
    def _packages(self) -> frozenset[bytes]:
        """The last names of all packages; none for those that are named by dots alone."""
        packages = (name for name in self._words if name.endswith("__init__.py"))
        return frozenset((b"", *map(last_name, packages)))

    def _imports(self, file: str) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """The names that a file imports from packages, and the words behind its `import`s."""
        if file not in self._imported:
            text = self._text(file)
            named = (
                match[2]
                for match in _FROM.finditer(text)
                if match[1].rpartition(b".")[2] in self._packages
            )
            behind = chain.from_iterable(map(_WORD.findall, _BEHIND.findall(text)))
            from_packages = chain.from_iterable(map(_WORD.findall, named))
            self._imported[file] = frozenset(from_packages), frozenset(behind)
        return self._imported[file]

    def _from_a_package(self, file: str, names: frozenset[bytes]) -> bool:
        """Whether a file imports one of the names from a package: from a module it is another."""
        return not names.isdisjoint(self._imports(file)[0])

    def _has_one(self, file: str, names: frozenset[bytes]) -> bool:
        """Whether a file has one of some names as an attribute, or may have it from a star."""
        if file not in self._members:
            self._members[file] = _members(self._text(file))
        return not names.isdisjoint(self._members[file])


class UnreadFiles(UnanalysedModules):
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
        self._saying: dict[str, list[str]] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def same_answers(self, text: Callable[[str], bytes], names: Iterable[str]) -> bool:
        """Whether what was asked so far has the same answers with other texts of some files."""
        files = set(names)
        same = all(self._left_out(method) == held for method, held in self._defining.items())
        same = same and all(
            (word.encode() in text(file)) == (self._modules.get(file) in saying)
            for word, saying in self._saying.items()
            for file in files & self._modules.keys()
        )
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

    def saying(self, word: str) -> Collection[str]:
        if word not in self._saying:
            files = self._modules.items()
            self._saying[word] = [name for file, name in files if self._has(file, word)]
        return self._saying[word]

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
        return self._has(file, word)

    def _has(self, file: str, word: str) -> bool:
        """Whether the text of a file has a word."""
        said = self._said.get((file, word))
        if said is None:
            said = word.encode(errors="surrogateescape") in self._text(file)
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
