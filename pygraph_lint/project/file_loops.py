"""What the training loops of a project's files do: from memory, from the cache, or worked out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pygraph_lint.errors import SourceError
from pygraph_lint.files.cache import Cache, digest, file_entry
from pygraph_lint.files.sources import decode

if TYPE_CHECKING:
    from pygraph_lint.analysis.program.facts import FileLoops, LoopBody, ModuleFacts

# What the cache has of a file: its steps, and by name its helpers, as far as they were asked for.
_Kept: TypeAlias = "tuple[Sequence[LoopBody], dict[str, LoopBody | None]]"

# So many syntax trees are held while helpers are asked for.
_READ = 20


class LoopBodies:
    """The loops of files, by path below the root. ``text`` and ``content`` give the bytes of a
    path and their digest; ``edited`` says whether an editor has another text than the disk.
    """

    def __init__(
        self,
        cache: Cache,
        text: Callable[[str], bytes],
        content: Callable[[str], bytes],
        edited: Callable[[str], bool],
    ) -> None:
        self._cache = cache
        self._text = text
        self._content = content
        self._edited = edited
        self._known: dict[str, tuple[bytes, FileLoops]] = {}
        self._read_last: list[str] = []

    def forget(self, name: str) -> None:
        """Forget those of a file, which has another text."""
        self._known.pop(name, None)

    def of(self, module: ModuleFacts) -> FileLoops:
        """Those of one file."""
        from pygraph_lint.analysis.extract import loop_bodies
        from pygraph_lint.analysis.program.facts import NO_BODIES, FileLoops

        name = module.path
        entry, key = (
            f"{file_entry(name)}-loops",
            digest(self._content(name), repr(module.beside).encode()),
        )
        held = self._known.get(name)
        if held is not None and held[0] == key:
            return held[1]
        edited = self._edited(name)
        kept: _Kept | None = None if edited else self._cache.load(entry, key)
        if kept is not None:
            bodies = FileLoops(kept[0], _Helpers(kept[1], partial(self._read, module)))
        else:
            try:
                text = decode(self._text(name)).text
                bodies = loop_bodies(text, module.module, module.is_package, module.beside)
            except SourceError:
                return NO_BODIES
            if not edited:
                helpers = _Helpers(dict.fromkeys(bodies.helpers), partial(self._read, module))
                helpers.is_new, helpers.every = True, bodies.helpers
                bodies = bodies._replace(helpers=helpers)
                self._hold(name)
        self._known[name] = (key, bodies)
        return bodies

    def _read(self, module: ModuleFacts) -> Mapping[str, LoopBody]:
        """The helpers of a file, read once more."""
        from pygraph_lint.analysis.extract import helper_bodies

        self._hold(module.path)
        try:
            text = decode(self._text(module.path)).text
            return helper_bodies(text, module.module, module.is_package, module.beside)
        except SourceError:
            return {}

    def _hold(self, name: str) -> None:
        """Hold the syntax tree of a file, and let go of that which is held longest."""
        self._read_last.append(name)
        if len(self._read_last) > _READ:
            self._let_go(self._read_last.pop(0))

    def keep(self) -> None:
        """Write what was worked out to the cache, and let go of syntax trees."""
        for name, (key, bodies) in self._known.items():
            if isinstance(bodies.helpers, _Helpers):
                if bodies.helpers.is_new:
                    kept = (bodies.steps, bodies.helpers.known)
                    self._cache.store(f"{file_entry(name)}-loops", key, kept)
                bodies.helpers.is_new = False
                self._let_go(name)

    def _let_go(self, name: str) -> None:
        """Let go of the syntax tree of a file."""
        _, bodies = self._known.get(name, (b"", None))
        if bodies is not None and isinstance(bodies.helpers, _Helpers):
            bodies.helpers.every = None


class _Helpers(Mapping[str, "LoopBody"]):
    """The helpers of a file by name, each worked out when it is asked for. Few of them are."""

    def __init__(
        self, known: dict[str, LoopBody | None], read: Callable[[], Mapping[str, LoopBody]]
    ) -> None:
        """``known`` has all names; ``read`` gives all bodies."""
        self.known = known
        self.is_new = False  # whether the cache does not have it
        self._read = read
        self.every: Mapping[str, LoopBody] | None = None  # of a file that was read

    def __getitem__(self, name: str) -> LoopBody:
        from pygraph_lint.analysis.extract import helper_body

        found = self.known[name]
        if found is None:
            if self.every is None:
                self.every = self._read()
            found = self.known[name] = helper_body(self.every, name)
            self.is_new = True
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)
