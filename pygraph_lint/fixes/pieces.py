"""Changes to pieces of source, formatting and comments kept: libcst on one expression, never on a
whole file.
"""

from __future__ import annotations

import libcst as cst

_SPACE = cst.SimpleWhitespace(" ")
_PLAIN_EQUAL = cst.AssignEqual(
    whitespace_before=cst.SimpleWhitespace(""), whitespace_after=cst.SimpleWhitespace("")
)


def _code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def parse(text: str) -> cst.BaseExpression:
    """An expression that may span lines, as it stood inside brackets."""
    return cst.parse_expression(text)


def with_keywords(text: str, keywords: dict[str, str]) -> str:
    """The source of a call with keyword arguments added at the end, in the call's own layout.

    A keyword that is there already gets the new value.
    """
    call = cst.ensure_type(parse(text), cst.Call)
    for name, value in keywords.items():
        present = [
            arg for arg in call.args if arg.keyword is not None and arg.keyword.value == name
        ]
        if present:
            changed = present[0].with_changes(value=parse(value))
            args = [changed if arg is present[0] else arg for arg in call.args]
            call = call.with_changes(args=args)
        else:
            call = _appended(call, name, value)
    return _code(call)


def _between(space: cst.BaseParenthesizableWhitespace) -> cst.BaseParenthesizableWhitespace:
    """White space like ``space``, without its comments and empty lines."""
    if isinstance(space, cst.ParenthesizedWhitespace):
        return cst.ParenthesizedWhitespace(
            first_line=cst.TrailingWhitespace(newline=space.first_line.newline),
            indent=space.indent,
            last_line=space.last_line,
        )
    return _SPACE


def _appended(call: cst.Call, name: str, value: str) -> cst.Call:
    new = cst.Arg(keyword=cst.Name(name), value=parse(value), equal=_PLAIN_EQUAL)
    args = list(call.args)
    if not args:
        return call.with_changes(args=[new])
    last = args[-1]
    if len(args) > 1 and isinstance(args[-2].comma, cst.Comma):
        between = _between(args[-2].comma.whitespace_after)
    else:
        between = _between(call.whitespace_before_args)
    if isinstance(last.comma, cst.Comma):
        closing = last.comma.whitespace_after
        if _has_comment(closing):
            between = _commented(closing, between)
            closing = _between(closing)
        args[-1] = last.with_changes(comma=last.comma.with_changes(whitespace_after=between))
        new = new.with_changes(comma=cst.Comma(whitespace_after=closing))
    else:
        closing = last.whitespace_after_arg
        if _has_comment(closing):
            between = _commented(closing, between)
            closing = _between(closing)
        args[-1] = last.with_changes(
            comma=cst.Comma(whitespace_after=between),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        )
        new = new.with_changes(whitespace_after_arg=closing)
    return call.with_changes(args=[*args, new])


def _has_comment(space: cst.BaseParenthesizableWhitespace) -> bool:
    return isinstance(space, cst.ParenthesizedWhitespace) and (
        space.first_line.comment is not None or bool(space.empty_lines)
    )


def _commented(
    closing: cst.BaseParenthesizableWhitespace, between: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """The comments that stood behind the last argument, now in front of the new one."""
    assert isinstance(closing, cst.ParenthesizedWhitespace)
    if isinstance(between, cst.ParenthesizedWhitespace):
        return closing.with_changes(indent=between.indent, last_line=between.last_line)
    return closing
