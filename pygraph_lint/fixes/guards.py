"""Puts statements behind ``if not torch.compiler.is_compiling():``."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.conditions import with_parentheses
from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.source import FUNCTIONS
from pygraph_lint.fixes.statements import line_span, shifted


def guard(proposal: Proposal, statement: ast.stmt, reason: str) -> None:
    """Put a statement behind the guard, unsafe because of ``reason``.

    An ``if`` that holds nothing else gets the guard as its first condition.
    """
    source = proposal.source
    inside = any(isinstance(node, FUNCTIONS) for node in proposal.path)
    proposal.need("in-function", inside, "the code runs when the module is imported")
    region = proposal.finding.region
    compiled = region is None or not region.captured
    proposal.need("compiled", compiled, "nothing is compiling in a capture made by hand")
    proposal.need("alone", source.alone(statement), "the line holds more than this statement")
    lost = any(changes_something(part) for part in _parts(statement))
    proposal.need("nothing-else", not lost, "what it is given is computed by what has an effect")
    proposal.safe_if("guard", False, reason)
    parent = proposal.parent(statement)
    alone = isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse
    if isinstance(parent, ast.If) and alone and not _may_change_something(parent.test):
        guard_condition(proposal, parent)
        return
    condition = _not_compiling(proposal)
    start, end = line_span(source, statement, statement)
    body = shifted(source.text[start:end], add=source.indent_unit)
    head = f"{source.indent(statement)}if {condition}:{source.newline}"
    proposal.replace(start, end, head + body)


def guard_condition(proposal: Proposal, node: ast.If) -> None:
    """Make the guard the first operand of a condition."""
    lost = changes_something(node.test)
    proposal.need("only-asks", not lost, "the condition has an effect")
    condition = _not_compiling(proposal)
    test = node.test
    start, end = with_parentheses(proposal.source, test, node)
    grouped = start < proposal.source.span(test)[0]
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and grouped:
        start = proposal.source.span(test)[0]
        proposal.replace(start, start, f"{condition} and ")
        return
    loose = isinstance(test, (ast.IfExp, ast.Lambda, ast.NamedExpr)) or (
        isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    )
    if loose and not grouped:
        proposal.replace(start, start, f"{condition} and (")
        proposal.replace(end, end, ")")
    else:
        proposal.replace(start, start, f"{condition} and ")


_CHANGING = frozenset(
    (
        *("append", "extend", "insert", "remove", "pop", "popleft", "popitem", "clear", "sort"),
        *("reverse", "update", "setdefault", "add", "discard", "write", "send", "step"),
    )
)


def changes_something(node: ast.AST) -> bool:
    """Whether evaluating this visibly binds a name or changes an object."""
    for inner in ast.walk(node):
        if isinstance(inner, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
            return True
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute):
            name = inner.func.attr
            if name in _CHANGING or (name.endswith("_") and not name.endswith("__")):
                return True
        if isinstance(inner, ast.Call) and ast.unparse(inner.func) == "next":
            return True
    return False


def _may_change_something(test: ast.expr) -> bool:
    """The same, where methods of ``self`` are not trusted, either."""
    return changes_something(test) or any(
        isinstance(inner, ast.Call) and ast.unparse(inner.func).startswith(("self.", "cls."))
        for inner in ast.walk(test)
    )


def _parts(statement: ast.stmt) -> list[ast.AST]:
    """What a statement evaluates, apart from the call that it is."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return [*statement.value.args, *statement.value.keywords]
    return [statement]


# Names that projects give their own question, for files that can be used without torch.
_QUESTIONS = ("is_torchdynamo_compiling", "is_torch_compiling", "is_compiling")


def _not_compiling(proposal: Proposal) -> str:
    """The question whether code runs outside the compiler, as the file can ask it."""
    try:
        return f"not {use_torch(proposal)}.compiler.is_compiling()"
    except Declined:
        for node in proposal.source.tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in _QUESTIONS and not _needs(node):
                return f"not {node.name}()"
        raise


def _needs(function: ast.FunctionDef) -> bool:
    """Whether a function has to be given arguments."""
    arguments = function.args
    given = [*arguments.posonlyargs, *arguments.args]
    return len(given) > len(arguments.defaults) or None in arguments.kw_defaults
