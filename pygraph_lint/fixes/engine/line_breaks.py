"""Long lines: broken at their last bracket, as the common formatters do."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tokenize
from itertools import pairwise
from typing import NamedTuple

_CLOSING = {"(": ")", "[": "]", "{": "}"}


class _Pair(NamedTuple):
    open: int
    close: int
    commas: tuple[int, ...]


def wrap(line: str, width: int, unit: str = "    ", inside: bool = False) -> list[str]:
    """The line, or what it becomes when it is longer than ``width`` and can be broken at a
    bracket.

    ``unit`` is one step of indentation, ``inside`` says that the line is not a statement of its
    own: ``name = value,`` there is an argument. A line with a comment, or without brackets, stays
    as it is.
    """
    if len(line) <= width or line.endswith("\\"):
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    pairs = _outer_pairs(line)
    if pairs is None:
        return [line]
    if (condition := _condition(line, indent, width, unit)) is not None:
        return condition
    if not pairs:
        return _strings(line, indent) if inside else _in_parentheses(line, indent, width, unit)
    pair = _breaking(line, pairs, width, indent + unit)
    if not inside and _is_index(line, pairs[-1]):
        whole = _in_parentheses(line, indent, width, unit)
        if len(whole) > 1:
            return whole
    tail = line[pair.close :]
    if pair is pairs[-1] and len(tail.rstrip(",:")) > 1:
        return [line] if inside else _in_parentheses(line, indent, width, unit)
    head, body = line[: pair.open + 1], line[pair.open + 1 : pair.close].strip()
    if not body:
        return [line]
    inner = f"{indent}{unit}{body}"
    if len(inner) <= width and not body.endswith(","):
        return [*wrap(head, width, unit, inside), inner, indent + tail]
    parts = _parts(line, pair)
    clauses = _clauses(parts[0]) if len(parts) == 1 else []
    lines, commas = [head], not clauses
    for index, part in enumerate(clauses or parts):
        comma = "," if commas and (index < len(parts) - 1 or _takes_comma(line, pair)) else ""
        lines += wrap(f"{indent}{unit}{part}{comma}", width, unit, inside=True)
    return [*lines, indent + tail]


def joined_lines(lines: list[str]) -> list[str] | None:
    """A simple statement on one line, without the line breaks inside its brackets; None where it
    would not be the same one, or has comments inside.
    """
    last, mark, comment = lines[-1].partition("  #")
    if len(lines) == 1 or any("#" in line for line in (*lines[:-1], last)):
        return None
    result = lines[0]
    for line in map(str.strip, [*lines[1:-1], last]):
        closes = line.startswith(tuple(_CLOSING.values()))
        if closes:
            result = result.removesuffix(",")
        tight = closes or result.endswith(tuple(_CLOSING))
        result += f"{'' if tight else ' '}{line}"
    result += mark + comment
    before, after = _simple_statement("\n".join(lines)), _simple_statement(result)
    return [result] if before is not None and before == after else None


def _simple_statement(text: str) -> str | None:
    """What a text says, where that is one statement without a block."""
    try:
        found = ast.parse(text.strip()).body
    except (SyntaxError, ValueError):
        return None
    plain = (
        len(found) == 1 and not hasattr(found[0], "body") and not isinstance(found[0], ast.Match)
    )
    return ast.dump(found[0]) if plain else None


def comment_at(line: str) -> int | None:
    """Where the comment of a line begins; the line may be a part of a statement."""
    with contextlib.suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(line).readline):
            if token.type == tokenize.COMMENT:
                return token.start[1]
    return None


def opens_twice(line: str) -> bool:
    """Whether a line leaves two brackets open, as no formatter does."""
    code = re.sub(r"'[^']*'|\"[^\"]*\"", "", line)
    opened = sum(map(code.count, _CLOSING)) - sum(map(code.count, _CLOSING.values()))
    return opened > 1 and "#" not in line


def _condition(line: str, indent: str, width: int, unit: str) -> list[str] | None:
    """A head ``if a and b:`` with its condition in parentheses; None where it is something else."""
    found = _HEAD.fullmatch(line, len(indent))
    parts = _operands(found[2]) if found is not None else []
    if found is None or len(parts) < 2:
        return None
    whole = f"{indent}{unit}{found[2]}"
    inner = [whole] if len(whole) <= width else [f"{indent}{unit}{part}" for part in parts]
    broken = [part for each in inner for part in wrap(each, width, unit)]
    return [f"{indent}{found[1]} (", *broken, f"{indent}):"]


_HEAD = re.compile(r"(if|elif|while) (.+):")


def _operands(condition: str) -> list[str]:
    """A condition at its outermost ``or``, or else ``and``, which stand in front; empty where it is
    a choice or a function.
    """
    places: dict[str, list[int]] = {"or": [], "and": []}
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(condition).readline):
            if token.string in _CLOSING or token.string in _CLOSING.values():
                depth += 1 if token.string in _CLOSING else -1
            elif depth == 0 and token.string in places:
                places[token.string].append(token.start[1])
            elif depth == 0 and token.string in ("if", "else", "lambda", ":="):
                return []
    except (tokenize.TokenError, SyntaxError):
        return []
    edges = [0, *(places["or"] or places["and"]), len(condition)]
    return [condition[start:end].strip() for start, end in pairwise(edges)]


def _is_index(line: str, pair: _Pair) -> bool:
    """Whether a pair of brackets holds one index: ``x[n - 1]``."""
    before = line[pair.open - 1] if pair.open else " "
    return line[pair.open] == "[" and (before.isalnum() or before in "_)]") and not pair.commas


def _clauses(part: str) -> list[str]:
    """A comprehension in front of its ``for`` and ``if``; empty where the part is none."""
    places: list[int] = []
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(part).readline):
            if token.string in _CLOSING or token.string in _CLOSING.values():
                depth += 1 if token.string in _CLOSING else -1
            elif depth == 0 and (token.string == "for" or (token.string == "if" and places)):
                places.append(token.start[1])
            elif depth == 0 and token.string in ("async", "lambda", "else"):
                return []
    except (tokenize.TokenError, SyntaxError):
        return []
    edges = [0, *places, len(part)] if places else [0]
    return [part[start:end].strip() for start, end in pairwise(edges)]


def _strings(line: str, indent: str) -> list[str]:
    """An argument of several strings behind each other, each on its line."""
    tokens = list(tokenize.generate_tokens(io.StringIO(line.strip()).readline))[:-2]
    strings = tokens[:-1] if tokens and tokens[-1].string == "," else tokens
    if len(strings) < 2 or any(token.type != tokenize.STRING for token in strings):
        return [line]
    comma = "," * (len(tokens) - len(strings))
    found = [indent + token.string for token in strings]
    return [*found[:-1], found[-1] + comma]


def _breaking(line: str, pairs: list[_Pair], width: int, margin: str) -> _Pair:
    """The last pair of brackets, the longest one where that is an index, or the one before it where
    what is in front does not fit: ``long(...)`` in ``long(...).short(...)``.
    """
    last = pairs[-1]
    if _is_index(line, last):
        last = max(pairs, key=lambda pair: pair.close - pair.open)
    if last.open < width or len(pairs) < 2:
        return last
    other = pairs[-2]
    inside = len(margin) + other.close - other.open - 1
    chained = line[other.close + 1 : other.close + 2] == "."
    return other if chained and other.open < width and inside <= width else last


def _in_parentheses(line: str, indent: str, width: int, unit: str) -> list[str]:
    """A value that does not end in a bracket, put in parentheses on its own line."""
    head, operator, value = line.partition(" = ")
    if not operator and line.lstrip().startswith("return "):
        head, operator, value = f"{indent}return", " ", line.lstrip().removeprefix("return ")
    fits = len(indent) + len(unit) + len(value) <= width
    if not operator or not fits or "(" in head or value.endswith(","):  # an argument, or a tuple
        return [line]
    return [f"{head}{operator}(", f"{indent}{unit}{value}", f"{indent})"]


def _takes_comma(line: str, pair: _Pair) -> bool:
    """Whether a comma stands behind the last part: as formatters write it, of several arguments of
    a call, and where one alone makes a tuple.
    """
    before = line[pair.open - 1] if pair.open else " "
    called = before.isalnum() or before in "_)]"
    if pair.commas and not line[pair.commas[-1] + 1 : pair.close].strip() and len(pair.commas) == 1:
        return True
    return line[pair.open] == "(" and called and bool(pair.commas)


def _parts(line: str, pair: _Pair) -> list[str]:
    edges = [pair.open, *pair.commas, pair.close]
    parts = [line[start + 1 : end].strip() for start, end in pairwise(edges)]
    return [part for part in parts if part]


def _outer_pairs(line: str) -> list[_Pair] | None:
    """The outermost pairs of brackets with their commas; None where the line is not whole or has
    a comment.
    """
    pairs: list[_Pair] = []
    stack: list[int] = []
    commas: list[int] = []
    formatted = 0  # strings with expressions around a token
    try:
        for token in tokenize.generate_tokens(io.StringIO(line).readline):
            kind, position = tokenize.tok_name[token.type], token.start[1]
            formatted += kind.endswith("STRING_START") - kind.endswith("STRING_END")
            if kind in ("COMMENT", "ERRORTOKEN"):
                return None
            if formatted or kind != "OP":
                continue
            if token.string in _CLOSING:
                commas = commas if stack else []
                stack.append(position)
            elif token.string in _CLOSING.values():
                start = stack.pop()
                if not stack:
                    pairs.append(_Pair(start, position, tuple(commas)))
            elif token.string == "," and len(stack) == 1:
                commas.append(position)
    except (tokenize.TokenError, SyntaxError, IndexError):
        return None
    return pairs
