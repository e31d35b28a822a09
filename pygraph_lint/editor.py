"""A project held in memory for an editor: unsaved text goes in, findings come out.

An editor server opens one ``OpenProject``, tells it of each change of a text, and shows what it
gives back. The findings are those that a run of ``check`` would give if all texts were saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pygraph_lint.errors import SourceError
from pygraph_lint.files.sources import Source, decode
from pygraph_lint.findings import Finding, Fix
from pygraph_lint.rules.catalogue import Rule
from pygraph_lint.runner import Runner


def _ignored(what: str, done: int, total: int) -> None:
    """Tells nobody how far a check is."""


def never() -> None:
    """Does not stop a check."""


class OpenProject:
    """The open files of an editor, and their findings. It is not safe to use from several threads.

    Only what an edit can change is looked at again. A check is stopped by ``step``, which is called
    between its steps and may raise: what it raises comes out of the method, the text stays as it
    was told, and the next call gives the findings for it.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        overrides: Mapping[str, Any] | None = None,
        config: Path | None = None,
        cache_folder: Path | None = None,
        step: Callable[[], None] = never,
        progress: Callable[[str, int, int], None] = _ignored,
    ) -> None:
        """``overrides`` are settings by field name, ``config`` a settings file for all files,
        ``cache_folder`` where facts of files are kept (None: nowhere). ``progress`` is told before
        each step what is done, how much of it, and how much there is.

        Raises SettingsError where the configuration is wrong.
        """
        self._step = step

        def told(what: str, done: int, total: int) -> None:
            progress(what, done, total)
            step()

        self.runner = Runner(rules, overrides or {}, config, cache_folder, progress=told)
        self._shown: dict[Path, list[Finding]] = {}

    @property
    def files(self) -> list[Path]:
        """The open files."""
        return list(self._shown)

    def open(self, path: Path) -> list[Finding]:
        """Hold a file from now on, with its text on disk; gives its findings."""
        path = Path(os.path.abspath(path))
        self._shown[path] = self.findings(path)
        return self._shown[path]

    def close(self, path: Path) -> dict[Path, list[Finding]]:
        """Hold a file no longer; its text is the one on disk again. Gives what ``update`` gives,
        without the file itself.
        """
        path = Path(os.path.abspath(path))
        self._shown.pop(path, None)
        self.runner.forget_content(path)
        return self._changed()

    def update(self, path: Path, text: str | None) -> dict[Path, list[Finding]]:
        """Take the text of a file, open or not, from the editor; None: from the disk, where it has
        changed or gone.

        Gives the findings of the file, if it is open, and those of each other open file whose
        findings are no longer what was last given.
        """
        path = Path(os.path.abspath(path))
        self.take(path, text)
        return self._changed(path)

    # --- the same in single steps, for a server that shows each file as soon as it is checked ---

    def take(self, path: Path, text: str | None) -> None:
        """Take the text of a file, by absolute path, as ``update`` does; nothing is checked."""
        if text is None:
            self.runner.forget_content(path)
        else:
            self.runner.replace_content({path: self._encoded(path, text)})

    def findings(self, path: Path) -> list[Finding]:
        """The findings of a file, by absolute path."""
        return self.runner.check([path])

    def source(self, path: Path) -> Source:
        """The text of a file as it was last taken. Raises SourceError."""
        return self.runner.source(path)

    def fixes(self, path: Path, findings: Sequence[Finding]) -> tuple[Fix | None, ...]:
        """What is offered for each finding of a file. Raises SourceError."""
        from pygraph_lint.fixes.engine import fix_text

        return fix_text(self.source(path).text, findings) if findings else ()

    def fixed(self, path: Path, unsafe: bool | None = False) -> str:
        """The text of a file with all fixes that help, as ``check --fix`` writes it. The text that
        is held stays. Raises SourceError.
        """
        from pygraph_lint.fixes.loop import fix_files

        held = self.runner.content(path)
        try:
            after = fix_files(self.runner, [path], unsafe).after
        finally:
            self.runner.replace_content({path: held})
        return decode(after[path]).text if path in after else self.source(path).text

    def _changed(self, edited: Path | None = None) -> dict[Path, list[Finding]]:
        """The findings of the file that was edited, and those of other open files that are new."""
        order = sorted(self._shown, key=lambda path: path != edited)
        now: dict[Path, list[Finding]] = {}
        for path in order:
            self._step()
            now[path] = self.findings(path)
        found = {
            path: new for path, new in now.items() if path == edited or new != self._shown[path]
        }
        self._shown.update(found)
        return found

    def _encoded(self, path: Path, text: str) -> bytes:
        """A text in the encoding that the file has."""
        try:
            return self.runner.source(path).encode(text)
        except (SourceError, UnicodeError):
            return text.encode(errors="surrogatepass")
