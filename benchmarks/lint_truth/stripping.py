"""Source without the annotations of parameters and returns; line numbers stay the same."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator

Place = tuple[int, int]  # line from 1, column in characters from 0


def without_annotations(source: str) -> str:
    """`source` with every parameter's and return's annotation replaced by blanks.

    Each statement keeps its lines and columns, but for lines with characters behind a return
    annotation that spans several lines. Raises SyntaxError.
    """
    tree = ast.parse(source)
    lines = io.StringIO(source, newline="").readlines()  # not at form feeds
    original = list(lines)
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in (tokenize.NL, tokenize.COMMENT)
    ]
    ends = {token.end: number for number, token in enumerate(tokens)}
    starts = {token.start: number for number, token in enumerate(tokens)}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for argument in _arguments(node.args):
            if argument.annotation is not None:
                name_end = _place(original, argument.lineno, argument.col_offset, len(argument.arg))
                first = ends[name_end] + 1
                _blank(lines, tokens, first, _last(original, ends, argument.annotation), "")
        if node.returns is not None:
            begin = starts[_place(original, node.returns.lineno, node.returns.col_offset)]
            while tokens[begin].string != "->":
                begin -= 1
            _blank(lines, tokens, begin, _last(original, ends, node.returns), "\\")
    return "".join(lines)


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from filter(None, (arguments.vararg, arguments.kwarg))


def _place(lines: list[str], line: int, offset: int, more: int = 0) -> Place:
    """A position of `ast`, whose columns are UTF-8 bytes, in characters."""
    text = lines[line - 1].encode()[:offset].decode()
    return line, len(text) + more


def _last(lines: list[str], ends: dict[Place, int], annotation: ast.expr) -> int:
    """The number of the annotation's last token, without closing parentheses around it."""
    return ends[_place(lines, annotation.end_lineno or 0, annotation.end_col_offset or 0)]


def _blank(
    lines: list[str], tokens: list[tokenize.TokenInfo], first: int, last: int, line_end: str
) -> None:
    """Blank the tokens from `first` to `last` and the parentheses around the annotation.

    `line_end` is written before each line end inside, so that a statement goes on behind it.
    """
    depth = 0
    for token in tokens[first : last + 1]:
        depth += token.string in ("(", "[", "{")
        depth -= token.string in (")", "]", "}")
    last += depth
    (line, column), (end_line, end_column) = tokens[first].start, tokens[last].end
    for number in range(line, end_line + 1):
        text = lines[number - 1]
        body = text.rstrip("\r\n")
        begin = column if number == line else 0
        end = end_column if number == end_line else len(body)
        ending = text[len(body) :]
        joined = "" if number == end_line else line_end
        lines[number - 1] = f"{body[:begin]}{' ' * (end - begin)}{body[end:]}{joined}{ending}"
