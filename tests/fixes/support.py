"""Helpers: source with a marked place, the findings made there, the rewrite offered."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from dataclasses import replace

from pygraph_lint.analysis.domain.events import Event
from pygraph_lint.analysis.queries.interface import ProjectView
from pygraph_lint.analysis.syntax.spans import Span
from pygraph_lint.findings import Finding, Fix, Location, Region
from pygraph_lint.fixes.engine.file_fixes import apply, fix_text

OPEN, CLOSE = "«", "»"


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Source without its marks, and the offsets of what stood between « and »."""
    text = textwrap.dedent(text).lstrip("\n")
    spans: list[tuple[int, int]] = []
    while OPEN in text:
        start = text.index(OPEN)
        text = text[:start] + text[start + 1 :]
        end = text.index(CLOSE)
        text = text[:end] + text[end + 1 :]
        spans.append((start, end))
    return text, spans


def edited(text: str, old: str, new: str) -> str:
    """The source with something in it, which has to be there, written otherwise."""
    text = textwrap.dedent(text)
    assert old in text
    return text.replace(old, new, 1)


def finding(
    text: str,
    span: tuple[int, int],
    code: str,
    kind: str = "",
    closed: bool = False,
    **notes: str,
) -> Finding:
    """A finding at a place of a text, as the checks would report it."""
    start, end = (_location(text, offset) for offset in span)
    event = Event(
        kind,
        Span(start.row, start.column - 1, end.row, end.column - 1),
        subject="",
        notes=tuple(notes.items()),
    )
    waiting = frozenset(name for name in ("to", "cuda") if f"def {name}(self" in text)
    view = ProjectView(closed=closed, waiting=waiting)
    ends = {"compile": "break"}
    return Finding(code, "", "", "model.py", start, end, consequences=ends, event=event, view=view)


def _location(text: str, offset: int) -> Location:
    row = text.count("\n", 0, offset) + 1
    return Location(row, offset - (text.rfind("\n", 0, offset) + 1) + 1)


def offer(
    text: str,
    code: str,
    kind: str = "",
    without: frozenset[str] = frozenset(),
    region: Region | None = None,
    closed: bool = False,
    **notes: str,
) -> tuple[Fix | None, str]:
    """The fix offered for the marked place, and the text with it applied (unsafe ones too)."""
    plain, spans = marked(text)
    findings = [
        replace(finding(plain, span, code, kind, closed, **notes), region=region) for span in spans
    ]
    fixes = fix_text(plain, findings, without=without)
    usable = [fix for fix in fixes if fix is not None and fix.applicability != "declined"]
    changed, _ = apply(plain, usable)
    return fixes[0], changed


def expect(
    before: str,
    after: str,
    code: str,
    applicability: str = "safe",
    kind: str = "",
    closed: bool = False,
    **notes: str,
) -> Fix:
    """Assert that the marked place is rewritten to ``after``, once and for all."""
    fix, changed = offer(before, code, kind, closed=closed, **notes)
    assert fix is not None
    assert changed == textwrap.dedent(after).lstrip("\n")
    assert fix.applicability == applicability, fix.reason
    assert bool(fix.reason) == (applicability != "safe")
    return fix


def decline(before: str, code: str, reason: str, kind: str = "", **notes: str) -> None:
    """Assert that nothing is offered for the marked place, and that the reason says why."""
    fix, changed = offer(before, code, kind, **notes)
    assert changed == marked(before)[0]
    assert fix is not None
    assert (fix.applicability, fix.edits) == ("declined", ())
    assert reason in fix.reason


def forget_modules(names: Iterable[str]) -> None:
    """The next import of these modules reads their files."""
    for name in names:
        sys.modules.pop(name, None)
