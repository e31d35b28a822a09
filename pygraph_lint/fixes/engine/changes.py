"""Changes of a file's text, and why a rewrite makes none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from pygraph_lint.findings import Edit
from pygraph_lint.fixes.engine.line_breaks import wrap
from pygraph_lint.fixes.engine.source import Source


class Declined(Exception):
    """A precondition does not hold; the text says which, fit for a report.

    Without a text: this rewrite is not for such code, and others may say more. ``condition`` is the
    precondition's name, where it has one.
    """

    def __init__(self, reason: str = "", condition: str = "") -> None:
        super().__init__(reason)
        self.condition = condition


class Change(NamedTuple):
    """Replace the text from offset ``start`` up to ``end`` by ``content``. A ``whole`` one rests on
    all of the old text, also on parts that stay: other fixes must not change these meanwhile.
    """

    start: int
    end: int
    content: str
    whole: bool = False


def edits_of(source: Source, changes: Iterable[Change]) -> tuple[Edit, ...]:
    """The edits that make changes, as small as they can be, with lines within the file's width."""
    apart = [_apart(source.text, change) for change in sorted(changes)]
    return tuple(
        Edit(content, source.location(start), source.location(end))
        for change in wrapped(source, apart)
        for start, end, content, _ in [change if change.whole else shrink(source.text, change)]
    )


_ONE_WORD = re.compile(r"\w\w")


def _apart(text: str, change: Change) -> Change:
    """The change, with a space where it would make one word of two: ``return(x)``."""
    start, end, content, _ = change
    if content and start < end:
        before = _ONE_WORD.fullmatch(text[start - 1 : start] + content[0])
        behind = _ONE_WORD.fullmatch(content[-1] + text[end : end + 1])
        content = f"{' ' * bool(before)}{content}{' ' * bool(behind)}"
    return change._replace(content=content)


def shrink(text: str, change: Change) -> Change:
    """The same change without what it leaves alone at both ends."""
    start, end, content, _ = change
    while start < end and content and text[start] == content[0]:
        start, content = start + 1, content[1:]
    while start < end and content and text[end - 1] == content[-1]:
        end, content = end - 1, content[:-1]
    return Change(start, end, content)


def wrapped(source: Source, changes: list[Change]) -> list[Change]:
    """The changes, in order, with a line that they make too long broken at its brackets."""
    result: list[Change] = []
    by_line: dict[tuple[int, int], list[Change]] = {}
    for change in changes:
        place = source.location(change.start).row, source.location(change.end).row
        if "\n" in change.content:
            result.append(change)
        else:
            by_line.setdefault(place, []).append(change)
    touched = [row for first, last in by_line for row in range(first, last + 1)]
    for (first, last), those in by_line.items():
        start = source.line_start(first)
        end = source.line_start(last) + len(source.line(last))
        old = new = source.text[start:end]
        for change in reversed(those):
            new = new[: change.start - start] + change.content + new[change.end - start :]
        rows = range(first, last + 1)
        alone = "\n" not in new and all(touched.count(row) == 1 for row in rows)
        fits = all(len(source.line(row)) <= source.width for row in rows)
        fits = fits and alone and source.rows_between_lines.isdisjoint(rows)
        inside = (first, last) not in source.whole_lines
        lines = wrap(new, source.width, source.indent_unit, inside) if fits else [new]
        if len(lines) == 1:
            result += those
        else:
            result.append(Change(start, start + len(old), source.newline.join(lines)))
    return sorted(result)
