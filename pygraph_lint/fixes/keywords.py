"""Arguments of a call: read, and added in the call's own layout."""

from __future__ import annotations

import ast

import libcst as cst

_SPACE = cst.SimpleWhitespace(" ")
_PLAIN_EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def starred(call: ast.Call) -> bool:
    """Whether keyword arguments come from ``**kwargs``."""
    return any(item.arg is None for item in call.keywords)


def with_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """The call with one more keyword argument at its end, in the layout of those before; one that
    is there already gets the new value.
    """
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            changed = arg.with_changes(value=value)
            return call.with_changes(args=[changed if a is arg else a for a in call.args])
    new = cst.Arg(keyword=cst.Name(name), value=value, equal=_PLAIN_EQUAL)
    args = list(call.args)
    if not args:
        return call.with_changes(args=[new])
    last = args[-1]
    if len(args) > 1 and isinstance(args[-2].comma, cst.Comma):
        between = _between(args[-2].comma.whitespace_after)
    else:
        between = _between(call.whitespace_before_args)
    if isinstance(last.comma, cst.Comma):
        between, closing = _moved(last.comma.whitespace_after, between)
        args[-1] = last.with_changes(comma=last.comma.with_changes(whitespace_after=between))
        new = new.with_changes(comma=cst.Comma(whitespace_after=closing))
    else:
        between, closing = _moved(last.whitespace_after_arg, between)
        args[-1] = last.with_changes(
            comma=cst.Comma(whitespace_after=between), whitespace_after_arg=cst.SimpleWhitespace("")
        )
        new = new.with_changes(whitespace_after_arg=closing)
    return call.with_changes(args=[*args, new])


Space = cst.BaseParenthesizableWhitespace


def _between(space: Space) -> Space:
    """White space like ``space``, without its comments and empty lines."""
    if isinstance(space, cst.ParenthesizedWhitespace):
        return cst.ParenthesizedWhitespace(
            first_line=cst.TrailingWhitespace(newline=space.first_line.newline),
            indent=space.indent,
            last_line=space.last_line,
        )
    return _SPACE


def _moved(closing: Space, between: Space) -> tuple[Space, Space]:
    """What stands in front of a new argument, and behind it: comments behind the last one stay
    there.
    """
    if not isinstance(closing, cst.ParenthesizedWhitespace):
        return between, closing
    if closing.first_line.comment is None and not closing.empty_lines:
        return between, closing
    commented: Space = closing
    if isinstance(between, cst.ParenthesizedWhitespace):
        commented = closing.with_changes(indent=between.indent, last_line=between.last_line)
    return commented, _between(closing)
