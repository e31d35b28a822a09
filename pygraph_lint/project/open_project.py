"""A project held in memory for an editor: unsaved text goes in, findings come out.

An editor server opens one ``OpenProject`` and tells it of each change of a text. The findings are
those that a run of ``check`` would give if all texts were saved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pygraph_lint.errors import SourceError
from pygraph_lint.files.sources import Source, decode
from pygraph_lint.findings import Finding, Fix
from pygraph_lint.project.runner import Runner
from pygraph_lint.rules.catalogue import Rule


class OpenProject:
    """The texts of an editor, and their findings, by absolute path. It is not safe to use from
    several threads.

    Only what an edit can change is looked at again. A check is stopped by ``step``, which is called
    between its steps and may raise: what it raises comes out of the method, the text stays as it
    was told, and the next call gives the findings for it.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule],
        overrides: Mapping[str, Any] | None = None,
        cache_folder: Path | None = None,
        step: Callable[[], None] = lambda: None,
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> None:
        """``overrides`` are settings by field name, ``cache_folder`` is where facts of files are
        kept (None: nowhere). ``progress`` is told before each step what is done, how much of it,
        and how much there is.

        Raises SettingsError where the configuration is wrong.
        """

        def told(what: str, done: int, total: int) -> None:
            progress(what, done, total)
            step()

        self.runner = Runner(rules, overrides or {}, None, cache_folder, progress=told)

    def take(self, path: Path, text: str | None) -> None:
        """Take the text of a file from now on; None: from the disk, where it has changed or gone.
        Nothing is checked.
        """
        if text is None:
            self.runner.forget_content(path)
        else:
            self.runner.replace_content({path: self._encoded(path, text)})

    def findings(self, path: Path) -> list[Finding]:
        """The findings of a file."""
        return self.runner.check([path])

    def source(self, path: Path) -> Source:
        """The text of a file as it was last taken. Raises SourceError."""
        return self.runner.source(path)

    def fixes(self, path: Path, findings: Sequence[Finding]) -> tuple[Fix | None, ...]:
        """What is offered for each finding of a file. Raises SourceError."""
        from pygraph_lint.fixes.engine.file_fixes import fix_text

        return fix_text(self.source(path).text, findings) if findings else ()

    def fixed(self, path: Path, unsafe: bool | None = False) -> str:
        """The text of a file with all fixes that help, as ``check --fix`` writes it. The text that
        is held stays. Raises SourceError.
        """
        from pygraph_lint.fixes.engine.loop import fix_files

        held = self.runner.content(path)
        try:
            after = fix_files(self.runner, [path], unsafe).after
        finally:
            self.runner.replace_content({path: held})
        return decode(after[path]).text if path in after else self.source(path).text

    def _encoded(self, path: Path, text: str) -> bytes:
        """A text in the encoding that the file has."""
        try:
            return self.runner.source(path).encode(text)
        except (SourceError, UnicodeError):
            return text.encode(errors="surrogatepass")
