"""Two texts compared line by line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from pygraph_lint.server.messages import Place, TextEdit

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


def difference(before: str, after: str) -> tuple[TextEdit, ...]:
    """The edits, of whole lines, that make one text of the other."""
    old, new = _LINE.findall(before), _LINE.findall(after)
    edits = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new).get_opcodes():
        if kind != "equal":
            edits.append(TextEdit(_start(old, i), _start(old, j), "".join(new[k:m])))
    return tuple(edits)


def _start(lines: Sequence[str], number: int) -> Place:
    """Where a line begins; the end of the text for the one behind the last."""
    if lines and number == len(lines) and not lines[-1].endswith(("\n", "\r")):
        return (number, len(lines[-1]) + 1)
    return (number + 1, 1)
