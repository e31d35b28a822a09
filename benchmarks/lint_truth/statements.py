"""Source lines to logical statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable

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


def function_ends(source: str) -> dict[int, int]:
    """First line of each function, with its decorators -> its last line. Raises SyntaxError."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[first] = node.end_lineno or node.lineno
    return found


class Sources:
    """Statements and source text by ("package/path.py", line), read once a file."""

    def __init__(self, read: Callable[[str], str | None]) -> None:
        self._read = read
        self._lines: dict[str, list[str]] = {}
        self._spans: dict[str, dict[int, Span]] = {}
        self._ends: dict[str, dict[int, int]] = {}

    def _load(self, file: str) -> None:
        if file not in self._spans:
            source = self._read(file)
            self._lines[file] = (source or "").splitlines()
            self._spans[file] = statement_spans(source) if source else {}

    def span(self, file: str, line: int) -> Span:
        """(first, last) line of the logical statement at `line`; the line itself outside any."""
        self._load(file)
        return self._spans[file].get(line, (line, line))

    def statement(self, file: str, line: int) -> int:
        """First line of the logical statement at `line`."""
        return self.span(file, line)[0]

    def function_end(self, file: str, first: int) -> int:
        """Last line of the function that starts at `first`; `first` itself if there is none."""
        if file not in self._ends:
            source = self._read(file)
            self._ends[file] = function_ends(source) if source else {}
        return self._ends[file].get(first, first)

    def text(self, file: str, line: int) -> str:
        """The logical statement at `line` on one line, at most 200 characters."""
        start, end = self.span(file, line)
        return " ".join(part.strip() for part in self._lines[file][start - 1 : end])[:200]


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
