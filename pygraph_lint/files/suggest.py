"""What was probably meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, names: Iterable[str]) -> str | None:
    """The name most like `word`, None where none is: a mistyped character counts less than one
    that is in another place.
    """
    known = list(names)
    for wrong in (1, 2):
        for name in known:
            if len(name) == len(word) > 2 * wrong and _different(name, word) == wrong:
                return name
    near = get_close_matches(word, known, n=1)
    return near[0] if near else None


def _different(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))
