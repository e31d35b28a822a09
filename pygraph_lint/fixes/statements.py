"""Whole statements: their lines, indented, taken out or put under a condition."""

from __future__ import annotations

import ast
import io
import tokenize

from pygraph_lint.fixes.layout import wrap
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import Source


def text_lines(text: str) -> set[int]:
    """Numbers (0-based) of the lines that start inside a string, where white space is data."""
    inside: set[int] = set()
    opened: list[int] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            name = tokenize.tok_name[token.type]
            if name == "STRING":
                inside.update(range(token.start[0], token.end[0]))
            elif name.endswith("STRING_START"):
                opened.append(token.start[0])
            elif name.endswith("STRING_END") and opened:
                inside.update(range(opened.pop(), token.end[0]))
    except (tokenize.TokenError, SyntaxError):
        pass
    return inside


def shifted(text: str, add: str = "", remove: str = "") -> str:
    """Lines with ``add`` put in front, or ``remove`` taken away; the insides of strings are left
    alone.
    """
    inside = text_lines(text)
    lines = text.splitlines(keepends=True)
    result = []
    for number, line in enumerate(lines):
        if number in inside or not line.strip():
            result.append(line)
        elif remove:
            result.append(line.removeprefix(remove))
        else:
            result.append(add + line)
    return "".join(result)


def one_line(text: str) -> str:
    """Source that may span lines inside brackets, on one line. Raises Declined where a comment
    would be lost.
    """
    lines = text.splitlines()
    if len(lines) == 1:
        return text
    if "#" in text or text_lines(f"({text})"):
        raise Declined("the expression spans lines, with comments or strings in between")
    result = lines[0].rstrip(" \t\\")
    for line in lines[1:]:
        part = line.strip(" \t\\")
        if part.startswith((")", "]", "}")):
            result = result.removesuffix(",") + part
        elif not part or result.endswith(("(", "[", "{")) or part.startswith("."):
            result += part
        else:
            result += f" {part}"
    return result


def line_span(source: Source, first: ast.stmt, last: ast.stmt) -> tuple[int, int]:
    """Offsets from the start of the first statement's line to the end of the last one's, line
    ending left out.
    """
    assert last.end_lineno is not None
    start = source.line_start(first.lineno)
    end = source.line_start(last.end_lineno) + len(source.line(last.end_lineno))
    return start, end


def written(proposal: Proposal, indent: str, lines: list[str]) -> str:
    """New one-line statements at an indentation, broken where they are too long; no final line
    ending.
    """
    source = proposal.source
    wrapped = [
        part for line in lines for part in wrap(indent + line, source.width, source.indent_unit)
    ]
    return source.newline.join(wrapped)
