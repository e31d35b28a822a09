"""Errors a user can act on: each says what was found, where, and what to do."""

from __future__ import annotations


class LintError(Exception):
    """Base of this package's errors; its text is one line fit to be printed."""


class CatalogueError(LintError):
    """A rule page does not fit the catalogue's form."""


class SettingsError(LintError):
    """A setting or command-line value is wrong."""


class SourceError(LintError):
    """A file could not be read or parsed.

    ``line`` and ``column`` are 1-based; 0 where there is no position.
    """

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        super().__init__(text)
        self.line = line
        self.column = column
