"""New code: libcst nodes from templates, and parts put together."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce

import libcst as cst
from libcst.helpers import parse_template_expression, parse_template_statement

#: A statement with a line of its own, as a block holds them.
Line = cst.SimpleStatementLine | cst.BaseCompoundStatement


def expression(template: str, **parts: cst.BaseExpression) -> cst.BaseExpression:
    """A template with nodes in the places named ``{part}``."""
    return parse_template_expression(template, cst.PartialParserConfig(), **parts)


def statement(template: str, **parts: cst.BaseExpression) -> Line:
    """A new statement from a template."""
    found = parse_template_statement(template, cst.PartialParserConfig(), **parts)
    assert isinstance(found, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return found


def grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression in parentheses."""
    if node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


_LOOSE = (
    cst.BinaryOperation,
    cst.BooleanOperation,
    cst.Comparison,
    cst.UnaryOperation,
    cst.IfExp,
    cst.Lambda,
    cst.NamedExpr,
    cst.Tuple,
    cst.Await,
)


def binds_loosely(node: cst.BaseExpression) -> bool:
    """Whether an expression beside an operator needs parentheses."""
    return isinstance(node, _LOOSE)


def operand(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression as it can stand beside an operator."""
    return grouped(node) if binds_loosely(node) else node


def code(node: cst.CSTNode) -> str:
    """A node's text, with the indentation of its own lines alone."""
    return cst.Module([]).code_for_node(node)


def whole(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression as it can stand on a line that no bracket holds open."""
    inner = code(node)
    closed = isinstance(node, (cst.Call, cst.Subscript, cst.List, cst.Dict, cst.Set))
    return grouped(node) if "\n" in inner and not closed else node


def conjunction(parts: Sequence[cst.BaseExpression]) -> cst.BaseExpression:
    """``a and b and c``."""
    return joined(map(_joint, parts), cst.And()) if len(parts) > 1 else parts[0]


def joined(
    parts: Iterable[cst.BaseExpression], operator: cst.BaseBooleanOp | cst.BaseBinaryOp
) -> cst.BaseExpression:
    """``a and b and c``, or ``a & b & c``, of parts as they can stand beside the operator."""
    if isinstance(operator, cst.BaseBooleanOp):
        return reduce(lambda left, right: cst.BooleanOperation(left, operator, right), parts)
    return reduce(lambda left, right: cst.BinaryOperation(left, operator, right), parts)


def _joint(node: cst.BaseExpression) -> cst.BaseExpression:
    """An operand of ``and``."""
    weak = isinstance(node, (cst.IfExp, cst.Lambda, cst.NamedExpr)) or (
        isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.Or)
    )
    return grouped(node) if weak else whole(node)


def assign(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    """``name = value``."""
    target = cst.AssignTarget(cst.parse_expression(name))  # type: ignore[arg-type]
    return cst.SimpleStatementLine([cst.Assign(targets=[target], value=value)])


def call(function: str, *arguments: cst.BaseExpression) -> cst.Call:
    """``function(a, b)``, where ``function`` is a dotted name."""
    args = [cst.Arg(bare(each)) for each in arguments]
    return cst.Call(func=cst.parse_expression(function), args=args)


def bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression without parentheses around it that a bracket makes unnecessary."""
    keeps = isinstance(node, (cst.Tuple, cst.GeneratorExp, cst.NamedExpr, cst.Yield))
    return node if keeps or not node.lpar else node.with_changes(lpar=(), rpar=())


#: A node, with its inner nodes changed already, to what takes its place.
Change = Callable[[cst.CSTNode], cst.CSTNode]


def changed(node: cst.CSTNode, changes: Mapping[cst.CSTNode, Change]) -> cst.CSTNode:
    """The node with those inside it that are keys of ``changes`` replaced, inner ones first."""
    found = node.visit(_Changed(changes))
    assert isinstance(found, cst.CSTNode)
    return found


class _Changed(cst.CSTTransformer):
    def __init__(self, changes: Mapping[cst.CSTNode, Change]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        change = self._changes.get(original_node)
        return change(updated_node) if change else updated_node


def names_in(node: cst.CSTNode) -> set[str]:
    """The names in a node, those of attributes and keywords among them."""
    found = {node.value} if isinstance(node, cst.Name) else set()
    return found.union(*map(names_in, node.children))


def inverted(node: cst.BaseExpression) -> cst.BaseExpression:
    """``~node``."""
    return cst.UnaryOperation(operator=cst.BitInvert(), expression=operand(node))


# -- arguments of a call


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
        between = without_comments(args[-2].comma.whitespace_after)
    else:
        between = without_comments(call.whitespace_before_args)
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


def without_comments(space: Space) -> Space:
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
    return commented, without_comments(closing)
