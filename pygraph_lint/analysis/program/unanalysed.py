"""Files of a project that were not analysed, as far as questions about the others lead to them."""

from __future__ import annotations

from collections.abc import Collection


class UnanalysedModules:
    """The modules of a project whose facts were not given: none."""

    def has(self, module: str) -> bool:
        """Whether a module of that name was left out."""
        return False

    def may_define(self, module: str, word: str) -> bool:
        """Whether a module was left out in which a name may be bound."""
        return False

    def defining(self, method: str) -> Collection[str]:
        """The modules left out that may have a method of a name."""
        return ()

    def saying(self, word: str) -> Collection[str]:
        """The modules left out whose text has a word."""
        return ()


EVERYTHING_ANALYSED = UnanalysedModules()
