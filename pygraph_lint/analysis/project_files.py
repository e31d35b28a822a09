"""Files of a project that are not like the others: not read, or imported by very many."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple


class Unread:
    """The modules of a project whose facts were not given: none."""

    def has(self, module: str) -> bool:
        """Whether a module of that name was left out."""
        return False

    def may_define(self, module: str, word: str) -> bool:
        """Whether a module was left out in which a name may be bound."""
        return False

    def defining(self, method: str) -> Collection[str] | None:
        """The modules left out that may have a method of a name; None where there are many."""
        return ()


NOTHING_UNREAD = Unread()


class Hubs(NamedTuple):
    """Modules that very many others import: what other modules have in place of methods of their
    classes is not followed. ``below`` has them and all that they import: what these call by a
    method's name alone is not followed into other modules.
    """

    modules: frozenset[str] = frozenset()
    below: frozenset[str] = frozenset()


NO_HUBS = Hubs()
