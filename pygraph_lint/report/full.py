"""For reading: the line, the evidence, the consequences and the fix."""

from __future__ import annotations

from pathlib import Path

from pygraph_lint.files.notebooks import cell_text
from pygraph_lint.files.sources import split_lines
from pygraph_lint.findings import Finding
from pygraph_lint.report import Report, consequences_in_words, in_words
from pygraph_lint.report.concise import line

_LINES = 6


def render(report: Report) -> str:
    """The whole report."""
    lines: dict[tuple[str, int | None], list[str]] = {}
    parts = []
    for finding in report.findings:
        key = (finding.filename, finding.location.cell)
        if key not in lines:
            lines[key] = split_lines(_text(finding, report))
        parts.append("\n".join([line(finding, report.color), *_frame(finding, lines[key])]))
        parts.append("\n".join(_notes(finding, report)) + "\n")
    return "\n".join(parts) + ("\n" if parts else "")


def _text(finding: Finding, report: Report) -> str:
    """The text of the finding's file or cell."""
    text = report.text(Path(finding.filename))
    cell = finding.location.cell
    return text if cell is None else cell_text(text, cell)


def _frame(finding: Finding, lines: list[str]) -> list[str]:
    """The source lines of the finding, marked."""
    first, last = finding.location.row, finding.end_location.row
    shown = lines[first - 1 : min(last, first + _LINES - 1)]
    if not any(shown):
        return []
    width = len(str(first + len(shown)))
    bar = f"{'':{width}} |"
    frame = [bar]
    for number, text in enumerate(shown, first):
        frame.append(f"{number:{width}} | {_visible(text)}")
        start = finding.location.column - 1 if number == first else len(text) - len(text.lstrip())
        end = finding.end_location.column - 1 if number == last else len(text)
        # As wide as the text shows: a tab is shown as four columns.
        before, marked = len(_visible(text[:start])), len(_visible(text[start:end]))
        frame.append(f"{bar} {' ' * before}{'^' * max(marked, 1)}")
    if last > first + len(shown) - 1:
        frame.append(f"{bar} ... ({last - first + 1} lines)")
    return frame


def _visible(text: str) -> str:
    """The text with tabs widened and control characters made harmless for a terminal."""
    return "".join(
        "    " if c == "\t" else c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}"
        for c in text
    )


def _notes(finding: Finding, report: Report) -> list[str]:
    notes = []
    if finding.region is not None:
        notes.append("region: " + ", ".join(finding.region.call_path))
    notes += [f"because: {evidence}" for evidence in finding.evidence]
    if finding.only_if:
        notes.append(f"only if: {in_words(finding.only_if)}")
    follows = consequences_in_words(finding.consequences)
    if follows:
        notes.append("impact: " + "; ".join(follows))
    fix = finding.fix
    if fix is not None and fix.applicability == "safe":
        notes.append(f"fix (--fix): {fix.message}")
    elif fix is not None and fix.applicability == "unsafe":
        notes.append(f"fix (--fix --unsafe-fixes): {fix.message}")
        notes.append(f"unsafe because: {fix.reason}")
    elif fix is not None and fix.reason:
        notes.append(f"fix: none available, because {fix.reason}")
    rule = report.rules.get(finding.code)
    if rule is not None and rule.by_hand and (fix is None or fix.applicability == "declined"):
        notes.append(f"by hand: {rule.advice_for(finding.event)}")
    if finding.code in report.rules:
        notes.append(f"more: pygraph-lint rule {finding.code}")
    return [f"  = {note}" for note in notes]
