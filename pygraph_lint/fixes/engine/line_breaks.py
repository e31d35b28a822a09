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
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    condition = _condition(line, indent, width, unit, inside)
    if condition is not None:
        return condition
    pairs = _outer_pairs(line)
    if pairs is None or line.endswith("\\"):
        return [line]
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


def _condition(line: str, indent: str, width: int, unit: str, inside: bool) -> list[str] | None:
    """A head ``if a and b:``, or what is asserted, assigned or returned, with its condition in
    parentheses; None where it is something else, or a value of two operands only.
    """
    found = _HEAD.fullmatch(line, len(indent))
    if found is None or (inside and found[1].endswith("=")):
        return None
    head, rest = found[1], found[2]
    condition = rest.removesuffix(":")
    if head == "assert":  # perhaps with a message that goes on behind the line
        commas = [at for word, at in _outermost(rest.removesuffix("\\")) if word == ","]
        condition = rest[: commas[0]] if commas else rest
    parts = _operands(condition)
    if len(parts) < 2 + (head == "return" or head.endswith("=")):
        return None
    whole = f"{indent}{unit}{condition}"
    inner = [whole] if len(whole) <= width else [f"{indent}{unit}{part}" for part in parts]
    broken = [part for each in inner for part in wrap(each, width, unit)]
    return [f"{indent}{head} (", *broken, f"{indent}){rest[len(condition) :]}"]


_HEAD = re.compile(r"((?:el)?if(?=.+:$)|while(?=.+:$)|assert|return|[\w.]+ =) (.+)")


def _outermost(text: str) -> list[tuple[str, int]]:
    """What stands outside of all brackets, with where it begins; empty where a text is not whole
    or has a comment.
    """
    found: list[tuple[str, int]] = []
    depth = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP and token.string in "()[]{}":
                depth += 1 if token.string in _CLOSING else -1
            if depth < 0 or token.type in (tokenize.COMMENT, tokenize.ERRORTOKEN):
                return []
            if depth == 0:
                found.append((token.string, token.start[1]))
    except (tokenize.TokenError, SyntaxError):
        return []
    return found


def _pieces(text: str, places: list[int]) -> list[str]:
    """A text, cut at some places."""
    return [text[start:end].strip() for start, end in pairwise([0, *places, len(text)])]


def _operands(condition: str) -> list[str]:
    """A condition at its outermost ``or``, or else ``and``, which stand in front; empty where it is
    a choice or a function.
    """
    found = _outermost(condition)
    if any(word in ("if", "else", "lambda", ":=", ",", "=") for word, _ in found):
        return []
    places = [[at for word, at in found if word == joint] for joint in ("or", "and")]
    return _pieces(condition, places[0] or places[1])


def _is_index(line: str, pair: _Pair) -> bool:
    """Whether a pair of brackets holds one index, or only slices: ``x[n - 1]``, ``x[:, None]``."""
    before = line[pair.open - 1] if pair.open else " "
    one = not pair.commas or _SLICES.fullmatch(line, pair.open + 1, pair.close)
    return line[pair.open] == "[" and (before.isalnum() or before in "_)]") and bool(one)


_SLICES = re.compile(r"(?:None|[\s\d:,.-])*")


def _clauses(part: str) -> list[str]:
    """A comprehension in front of its ``for`` and ``if``; empty where the part is none."""
    found = _outermost(part)
    first = next((at for word, at in found if word == "for"), len(part))
    places = [at for word, at in found if word in ("for", "if") and at >= first]
    others = any(word in ("async", "lambda", "else") for word, _ in found)
    return _pieces(part, places) if places and not others else []


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
    """A value that does not end in a bracket, put in parentheses on its own line; a tuple, each
    part on its own.
    """
    equals = next((at for word, at in _outermost(line) if word == "="), 0)
    head, operator, value = line[:equals].rstrip(), " = " * bool(equals), line[equals + 1 :].strip()
    if not operator and line.lstrip().startswith("return "):
        head, operator, value = f"{indent}return", " ", line.lstrip().removeprefix("return ")
    outside = _outermost(value)
    words = {word for word, _ in outside}
    parts = _pieces(value, [at for word, at in outside if word == ","])
    fits = len(parts) > 1 or len(indent) + len(unit) + len(value) <= width
    odd = "(" in head or value.endswith(",") or not words.isdisjoint(("lambda", "=", "yield"))
    if not operator or not fits or odd:  # an argument, or a tuple of one
        return [line]
    if len(parts) > 1:
        value = f",\n{indent}{unit}".join(part.lstrip(", ") for part in parts) + ","
    return [f"{head}{operator}(", *f"{indent}{unit}{value}".split("\n"), f"{indent})"]


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
