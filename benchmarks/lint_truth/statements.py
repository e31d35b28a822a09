"""Source lines to logical statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable

Span = tuple[int, int]


def _header_end(node: ast.stmt) -> int:
    """Last line of a compound statement's header, or of a simple statement."""
    bodies = [getattr(node, name, None) for name in ("body", "cases")]
    first = next((body[0] for body in bodies if isinstance(body, list) and body), None)
    if first is None:
        return node.end_lineno or node.lineno
    start = getattr(first, "lineno", None)
    if start is None:  # a match case: its pattern has the position
        start = first.pattern.lineno
    decorators = getattr(first, "decorator_list", None) or []
    start = min([start, *(decorator.lineno for decorator in decorators)])
    return max(node.lineno, start - 1)


def statement_spans(source: str) -> dict[int, Span]:
    """Line number -> (first line, last line) of the logical statement on that line.

    A compound statement counts only with its header (`if ...:`, `for ...:`, `def ...:`), its
    body's statements for themselves. Where two statements share a line, the outer one wins.
    Lines outside any statement (comments, `else:`) are absent. Raises SyntaxError.
    """
    spans: dict[int, Span] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.stmt):
            continue
        span = (node.lineno, _header_end(node))
        for line in range(span[0], span[1] + 1):
            spans.setdefault(line, span)
    return spans


def pack_lines(lines: Iterable[int]) -> str:
    """Line numbers as text, with runs joined: {1, 2, 3, 7} -> "1-3,7"."""
    parts: list[str] = []
    start = previous = None
    for line in sorted(set(lines)):
        if previous is not None and line == previous + 1:
            previous = line
            continue
        if start is not None:
            parts.append(f"{start}-{previous}" if previous != start else str(start))
        start = previous = line
    if start is not None:
        parts.append(f"{start}-{previous}" if previous != start else str(start))
    return ",".join(parts)


def unpack_lines(text: str) -> set[int]:
    """The inverse of `pack_lines`."""
    lines: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        lines.update(range(int(first), int(last or first) + 1))
    return lines
