"""Which files of a project may lead to a file, by the words of their texts alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property

from pygraph_lint.analysis import ops
from pygraph_lint.analysis.program import FEW_OF_A_NAME
from pygraph_lint.analysis.project_files import Hubs
from pygraph_lint.files.project import last_name

_DEFINED = re.compile(rb"^(?:def|[ \t]*class)[ \t]+(\w+)", re.MULTILINE)
_FROM = re.compile(rb"\bfrom[ \t]*([.\w]+)[ \t]*import\b[ \t]*(\([^)]*\)|(?:[^\r\n#\\]|\\\r?\n)*)")
_IMPORTED = re.compile(rb"\bimport([^\n]*)")
_METHOD = re.compile(rb"^[ \t]+(?:async[ \t]+)?def[ \t]+(\w+)", re.MULTILINE)
_CALLED = re.compile(rb"(?<!\bself)(?<!super\(\))\.(\w+)\(")
_MEMBER = re.compile(rb"\.(\w+)")
_WORD = re.compile(rb"\w+")
# Methods that trainers call by name, of all that have one.
_HOOK = re.compile(
    rb"_?(?:(?:on|before|after)_\w+|training_step(?:_end)?)"
    rb"|compute_loss|(?:prediction|optimizer)_step"
)
_HOOK_IN_QUOTES = re.compile(rb"[\"']((?:on|before|after)_\w+)[\"']")
_OF_OTHERS = frozenset(each.encode() for each in ops.TENSOR_METHODS | ops.COMMON_METHODS - {"step"})
_HUB = 60  # importers


def _methods(text: bytes) -> frozenset[bytes]:
    """The names of the methods that a text seems to define, without those that objects of other
    libraries have, too.
    """
    found = frozenset(_METHOD.findall(text)) - _OF_OTHERS
    return frozenset(name for name in found if not name.startswith(b"__"))


def _called(text: bytes) -> frozenset[bytes]:
    return frozenset((*_CALLED.findall(text), *_HOOK_IN_QUOTES.findall(text)))


def _defined(text: bytes) -> frozenset[bytes]:
    return frozenset(_DEFINED.findall(text))


def _members(text: bytes) -> frozenset[bytes]:
    """The names of all attributes that a text has."""
    return frozenset(_MEMBER.findall(text))


class WordIndex:
    """The files in whose texts words stand, by what they stand for; made where it is needed."""

    def __init__(
        self,
        texts: Callable[[], Mapping[str, bytes]],
        words: Mapping[str, Callable[[bytes], frozenset[bytes]]],
    ) -> None:
        """``words`` gives those of a text, by what they stand for."""
        self._texts = texts
        self._words = words

    @cached_property
    def _tables(self) -> dict[str, dict[bytes, set[str]]]:
        tables: dict[str, dict[bytes, set[str]]] = {each: defaultdict(set) for each in self._words}
        for name, text in self._texts().items():
            for kind, words in self._words.items():
                for word in words(text):
                    tables[kind][word].add(name)
        return tables

    def files(self, kind: str, word: bytes) -> Collection[str]:
        """The files with a word that stands for something."""
        return self._tables[kind].get(word, ())

    def edited(self, name: str, before: bytes, after: bytes) -> bool:
        """Take a file's new text; whether words changed that other files define, or all of them."""
        if "_tables" not in self.__dict__:
            return False
        changed = set()
        for kind, words in self._words.items():
            for word in words(before) ^ words(after):
                self._tables[kind][word] ^= {name}
                changed.add(word)
        return any(self.files(kind, word) for kind in ("defined", "method") for word in changed)


class Importers:
    """Which files may import a file, or call its methods, of all files by their words.

    Imports are compared by the last part of names, and what a package passes on by the names that a
    text has. A file may be too many.
    """

    def __init__(
        self,
        words: Mapping[str, frozenset[bytes]],
        text: Callable[[str], bytes],
        modules: Mapping[str, str],
    ) -> None:
        """``words`` are those of each file's imports, ``text`` gives the content of a path,
        ``modules`` are the names of modules by path.
        """
        self._text = text
        self._modules = modules
        self._words = words
        self._found: dict[str, frozenset[str]] = {}
        self._imported: dict[str, frozenset[bytes]] = {}
        self._by_word: dict[bytes, list[str]] = defaultdict(list)
        self._files_called: dict[bytes, list[str]] = defaultdict(list)
        for name, found in words.items():
            self._files_called[last_name(name)].append(name)
            for word in found:
                self._by_word[word].append(name)
        self._index = WordIndex(
            lambda: {name: text(name) for name in words},
            {
                "defined": _defined,
                "method": _methods,
                "called": _called,
                "member": _members,
                "taken": self._taken,
            },
        )

    def of(self, names: Iterable[str]) -> set[str]:
        """``names`` and the files that may lead to them, directly or through others."""
        return set().union(*map(self._of_one, names))

    def _of_one(self, given: str) -> frozenset[str]:
        if given not in self._found:
            reached, front = {given}, [given]
            while front:
                name = front.pop()
                if name.endswith("__init__.py") and name != given:
                    continue  # what it passes on is looked for by name
                new = {
                    *self._by_word.get(last_name(name), ()),
                    *self._through_packages(name),
                    *self._callers_by_name(name),
                } - reached
                reached |= new
                front += new
            self._found[given] = frozenset(reached)
        return self._found[given]

    def edited(self, name: str, before: bytes, after: bytes) -> None:
        """Forget what depends on a file's text, which has changed; the words of its imports have
        not.
        """
        self._imported.pop(name, None)
        moved = _FROM.findall(before) != _FROM.findall(after)
        if self._index.edited(name, before, after) or moved:
            self._found.clear()

    # -- what packages pass on

    def _through_packages(self, name: str) -> Iterator[str]:
        """Files that import from a package around a file, and have one of its names."""
        direct = self._by_word.get(last_name(name), ())
        if name.endswith("__init__.py") or not any(each.endswith("__init__.py") for each in direct):
            return
        packages = {part.encode(errors="surrogateescape") for part in name.split("/")[:-1]}
        for word in _defined(self._text(name)):
            for other in self._index.files("taken", word):
                if not self._words[other].isdisjoint((b".", *packages)):
                    yield other
            for other in self._index.files("member", word):
                if not packages.isdisjoint(self._imports(other)):
                    yield other

    @cached_property
    def _packages(self) -> frozenset[bytes]:
        """The last names of all packages; none for those that are named by dots alone."""
        packages = (name for name in self._words if name.endswith("__init__.py"))
        return frozenset((b"", *map(last_name, packages)))

    def _taken(self, text: bytes) -> frozenset[bytes]:
        """The names that a text imports from packages: from a module they would be others."""
        found = (
            _WORD.findall(match[2])
            for match in _FROM.finditer(text)
            if match[1].rpartition(b".")[2] in self._packages
        )
        return frozenset(word for words in found for word in words)

    def _imports(self, file: str) -> frozenset[bytes]:
        """What a file may import as a whole."""
        if file not in self._imported:
            found = _IMPORTED.findall(self._text(file))
            self._imported[file] = frozenset(word for each in found for word in _WORD.findall(each))
        return self._imported[file]

    # -- methods called by name

    def definers(self, method: bytes) -> Collection[str]:
        """The files that seem to have a method of a name."""
        return self._index.files("method", method)

    def callers(self, method: str) -> set[str]:
        """The files that call a method by its name, on objects of which they may say nothing."""
        word = method.encode(errors="surrogateescape")
        if word in _OF_OTHERS or word.startswith(b"__"):
            return set()
        return {*self._index.files("called", word)} - self._hub_files[1]

    def _callers_by_name(self, name: str) -> Iterator[str]:
        """The files that call methods of a file by their names, where few files have one."""
        for method in _methods(self._text(name)):
            if _HOOK.fullmatch(method) or len(self.definers(method)) <= FEW_OF_A_NAME:
                yield from self.callers(method.decode(errors="surrogateescape"))

    # -- hubs

    @cached_property
    def hubs(self) -> Hubs:
        """The modules that very many files import, and what these import."""
        hubs, below = ({self._modules[each] for each in files} for files in self._hub_files)
        return Hubs(frozenset(hubs), frozenset(below))

    @cached_property
    def _hub_files(self) -> tuple[set[str], set[str]]:
        hubs = {
            name
            for word, alike in self._files_called.items()
            if len(self._by_word.get(word, ())) > _HUB * len(alike)
            for name in alike
        }
        reached, front = set(hubs), list(hubs)
        while front:
            words = self._words[front.pop()]
            new = {name for word in words for name in self._files_called.get(word, ())} - reached
            reached |= new
            front += (name for name in new if not name.endswith("__init__.py"))
        return hubs, reached
