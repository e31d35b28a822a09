"""Findings in the editor's terms: diagnostics, hover texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lsprotocol import types

from pygraph_lint.server.messages import Place, Row
from pygraph_lint.server.texts import Open

_SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "information": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


def diagnostics(document: Open, rows: Iterable[Row]) -> dict[str, list[types.Diagnostic]]:
    """The diagnostics of each of the editor's texts that a document is made of."""
    found: dict[str, list[types.Diagnostic]] = {uri: [] for uri, _ in document.parts}
    for row in rows:
        if found:
            uri, where = document.range(row.start, row.end)
            found.setdefault(uri, []).append(diagnostic(row, where))
    return found


def diagnostic(row: Row, where: types.Range) -> types.Diagnostic:
    """A finding at a range."""
    return types.Diagnostic(
        range=where,
        message=row.message,
        severity=_SEVERITIES[row.severity],
        code=row.code,
        code_description=types.CodeDescription(row.url) if row.url else None,
        source=row.source,
        tags=[types.DiagnosticTag.Unnecessary] if row.unused else None,
    )


def marks(document: Open, rows: Iterable[Row]) -> dict[str, list[dict[str, object]]]:
    """What a trace says of lines, for editors that mark them: by text, a list of objects with
    ``range``, ``status`` and ``text``.
    """
    found: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        if row.traced is not None:
            uri, where = document.range(row.start, row.end)
            said = row.traced.said or row.traced.status
            mark = {"range": where, "status": row.traced.status, "text": said}
            found.setdefault(uri, []).append(mark)
    return found


def at(rows: Iterable[Row], start: Place, end: Place) -> list[tuple[int, Row]]:
    """The findings, with their numbers, that touch what lies between two places."""
    return [(n, row) for n, row in enumerate(rows) if row.start <= end and start <= row.end]


def near(rows: Sequence[Row], start: Place, end: Place) -> list[tuple[int, Row]]:
    """The findings between two places; where there are none, those that begin on these lines."""
    lines = [(n, row) for n, row in enumerate(rows) if start[0] <= row.start[0] <= end[0]]
    return at(rows, start, end) or lines


def hover(rows: Iterable[tuple[int, Row]]) -> str:
    """What is known of findings, as Markdown."""
    return "\n\n---\n\n".join(_about(row) for _, row in rows)


def _about(row: Row) -> str:
    title = f"[{row.code}]({row.url})" if row.url else row.code
    lines = [f"**{title}** `{row.name}`: {row.message}"]
    if row.traced is not None:
        lines.append("Trace: " + ", ".join(filter(None, (row.traced.status, row.traced.said))))
    return "\n\n".join((*lines, *row.about))
