"""Small questions about syntax nodes."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.events import Span


def span_of(node: ast.AST) -> Span:
    """The node's range, columns in UTF-8 bytes."""
    return Span(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def span_to(start: ast.AST, end: ast.AST) -> Span:
    """From the start of one node to the end of another."""
    return Span(start.lineno, start.col_offset, end.end_lineno, end.end_col_offset)  # type: ignore[attr-defined]


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` as text when the expression is just that."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
        return ".".join(reversed(parts))
    return None


def short(name: str) -> str:
    """The last two parts of a qualified name."""
    return ".".join(name.rsplit(".", 2)[-2:]) if name.count(".") > 1 else name


def source_of(node: ast.AST, limit: int = 60) -> str:
    """The expression as short source text."""
    text = ast.unparse(node)
    return text if len(text) <= limit else text[: limit - 3] + "..."
