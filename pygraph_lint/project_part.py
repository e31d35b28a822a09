"""The part of a project that can change the findings of a few files.

To check one file of a large project the others need not all be analysed: only what the file leads
to, and what leads to the file. The first is found by linking what was read so far and asking what
was missing, until nothing is; the second are the files that import it, directly or through others,
and those that may call what it has in place of a base class's methods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pygraph_lint.analysis.program import Program
from pygraph_lint.analysis.project_files import Unread

_FAMILY = 60  # files with classes of one family


class UnreadFiles(Unread):
    """The modules that were not analysed; the text of a file says which names it cannot bind."""

    def __init__(
        self,
        files: Mapping[str, str],
        text: Callable[[str], bytes],
        said: dict[tuple[str, str], bool] | None = None,
        definers: Callable[[bytes], Collection[str]] = lambda method: (),
    ) -> None:
        """``files`` are paths by module name, ``text`` gives the content of a path. ``said`` is
        what is known of paths and words already, and grows. ``definers`` gives the files, of all,
        that define a method of a name.
        """
        self._files = files
        self._text = text
        self._definers = definers
        self._said = said if said is not None else {}
        self._texts: dict[str, bytes] = {}
        self._known: dict[tuple[str, str], bool] = {}

    def same_answers(self, text: Callable[[str], bytes], names: Iterable[str]) -> bool:
        """Whether what was asked so far has the same answers with other texts of some files."""
        files = set(names)
        return all(
            (word.encode(errors="surrogateescape") in text(file)) == answer
            for (module, word), answer in self._known.items()
            if (file := self._files.get(module)) in files
            and word
            and not file.endswith("__init__.py")
        )

    def has(self, module: str) -> bool:
        return module in self._files

    def may_define(self, module: str, word: str) -> bool:
        key = (module, word)
        if key not in self._known:
            self._known[key] = self._says(module, word)
        return self._known[key]

    def defining(self, method: str) -> Collection[str] | None:
        found = self._definers(method.encode(errors="surrogateescape"))
        if len(found) > _FAMILY:
            return None
        return [self._modules[file] for file in found if file in self._modules]

    @cached_property
    def _modules(self) -> dict[str, str]:
        return {file: module for module, file in self._files.items()}

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


def base_files(starts: Iterable[str], program: Program) -> set[str]:
    """The modules with classes of which calls of a method may run what a class of some modules has
    in its place.
    """
    within = frozenset(starts)
    found = set()
    for module in within & program.modules.keys():
        for name, facts in program.modules[module].classes.items():
            lineage = program.lineage(name)[1:]
            above = {each for base in lineage for each in program.classes[base].methods}
            for method in facts.methods.keys() & above if lineage else ():
                bases = map(program.module_of, program.followed_bases(name, method))
                found |= {base.module for base in bases if base is not None}
    return found - within


def family_methods(starts: Iterable[str], program: Program) -> set[str]:
    """The names of the methods of classes with a base: what calls one of an unknown object may mean
    all of their family. Modules' methods are rarely called so.
    """
    return {
        method
        for module in program.modules.keys() & starts
        for name, facts in program.modules[module].classes.items()
        if len(program.lineage(name)) > 1 and not program.is_module(name)
        for method in facts.methods
    }


def with_bases(
    names: Iterable[str],
    starts_of: Callable[[Sequence[str]], frozenset[str]],
    program_of: Callable[[Iterable[str]], Program],
    callers: Callable[[str], set[str]],
    paths: Mapping[str, str],
) -> tuple[frozenset[str], frozenset[str]]:
    """The files in which a call path to one of ``names`` may start, and those of base classes and
    callers that lead to more of these. ``starts_of`` gives them without, none where they are too
    many; ``program_of`` gives what some files define, ``callers`` the files that call a method by
    its name; ``paths`` are all files by module.
    """
    bases: frozenset[str] = frozenset()
    read: set[str] = set()
    while starts := starts_of([*names, *bases]):
        read |= starts
        program = program_of(read)
        within = {module for module, path in paths.items() if path in starts}
        more = {paths[module] for module in base_files(within, program)}
        more = more.union(*map(callers, family_methods(within, program))) - starts - bases
        missing = {paths[module] for module in program.missing}
        if not more and not missing:
            break
        bases |= more
        read |= missing
    return starts, bases


@dataclass(frozen=True, slots=True)
class Basis:
    """What the findings of a file rest on: the files in which a call path to it may start, those of
    base classes that lead to more of these, the content of all that were read, by digest, and the
    answers that the others gave.
    """

    matter: frozenset[str]
    starts: frozenset[str]
    bases: frozenset[str]
    read: Mapping[str, bytes]
    unread: UnreadFiles
