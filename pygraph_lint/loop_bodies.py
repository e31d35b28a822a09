"""What the training loops of a project's files do: from memory, from the cache, or worked out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pygraph_lint.errors import SourceError
from pygraph_lint.files.cache import Cache, digest, file_entry
from pygraph_lint.files.sources import decode

if TYPE_CHECKING:
    from pygraph_lint.analysis.model import FileLoops, ModuleFacts


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

    def forget(self, name: str) -> None:
        """Forget those of a file, which has another text."""
        self._known.pop(name, None)

    def of(self, module: ModuleFacts) -> FileLoops:
        """Those of one file."""
        from pygraph_lint.analysis.extract import loop_bodies
        from pygraph_lint.analysis.model import NO_BODIES

        name = module.path
        entry, key = f"{file_entry(name)}-loops", digest(self._content(name))
        held = self._known.get(name)
        if held is not None and held[0] == key:
            return held[1]
        bodies = None if self._edited(name) else self._cache.load(entry, key)
        if bodies is None:
            try:
                text = decode(self._text(name)).text
                bodies = loop_bodies(text, module.module, module.is_package)
            except SourceError:
                return NO_BODIES
            if not self._edited(name):
                bodies = bodies._replace(helpers=dict(bodies.helpers))
                self._cache.store(entry, key, bodies)
        self._known[name] = (key, bodies)
        return bodies
