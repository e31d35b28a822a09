"""What a node of one tree is in the other one."""

from __future__ import annotations

import ast

import libcst as cst

#: What a node of one tree is in the other one.
KINDS: dict[str, tuple[str, ...]] = {
    "AsyncFor": ("For",),
    "AsyncFunctionDef": ("FunctionDef",),
    "AsyncWith": ("With",),
    "BinOp": ("BinaryOperation",),
    "BoolOp": ("BooleanOperation",),
    "Compare": ("Comparison",),
    "Constant": (
        *("SimpleString", "ConcatenatedString", "Integer", "Float", "Imaginary", "Name"),
        *("Ellipsis", "FormattedString"),
    ),
    "Delete": ("Del",),
    "FormattedValue": ("FormattedStringExpression",),
    "JoinedStr": ("FormattedString", "ConcatenatedString"),
    "NamedExpr": ("NamedExpr",),
    "Starred": ("Arg", "StarredElement", "SubscriptElement"),
    "UnaryOp": ("UnaryOperation",),
    "YieldFrom": ("Yield",),
    "alias": ("ImportAlias",),
    "arg": ("Param",),
    "comprehension": ("CompFor",),
    "keyword": ("Arg",),
    "match_case": ("MatchCase",),
    "withitem": ("WithItem",),
}


def same_kind(tree: ast.AST, node: cst.CSTNode) -> bool:
    """Whether two nodes are of the same kind."""
    name = type(tree).__name__
    return type(node).__name__ in KINDS.get(name, (name,))
