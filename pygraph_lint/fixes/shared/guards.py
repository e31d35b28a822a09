"""Put statements behind ``if not torch.compiler.is_compiling():``."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import method_name
from pygraph_lint.fixes.engine.build import Line, expression, operand, without_comments
from pygraph_lint.fixes.engine.imports import add_torch, use_torch
from pygraph_lint.fixes.engine.site import Declined, Site
from pygraph_lint.fixes.shared.conditions import operands

# Rules of tensors' values: who has a tensor has torch, as has who runs a region.
_OF_VALUES = ("PG2", "PG3", "PG4")


def guard(site: Site, statement: ast.stmt, like: Callable[[ast.stmt], bool], reason: str) -> None:
    """Put a statement behind the guard, unsafe because of ``reason``, with those right behind it
    that are ``like`` it.

    An ``if`` that holds nothing else gets the guard as its first condition.
    """
    inside = site.function is not None
    site.require("in-function", inside, "the code runs when the module is imported")
    site.expect_compiler()
    site.require("alone", site.source.alone(statement), "the line holds more than this statement")
    site.require(
        "nothing-else", _only_gives(statement), "what it is given is computed by what has an effect"
    )
    site.safe_only_if("guard", False, reason)
    parent = site.ask.parent(statement)
    alone = isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse
    if isinstance(parent, ast.If) and alone and not _may_change_something(parent.test):
        guard_condition(site, parent)
        return
    together = [statement]
    for other in site.behind(statement):
        if not (like(other) and site.source.alone(other) and _only_gives(other)):
            break
        together.append(other)
    first, *rest = [site.statement_node(each) for each in together]
    first = first.with_changes(leading_lines=())
    body: list[Line] = [first, *rest]
    test = not_compiling(site)
    site.put_statements(together, [cst.If(test=test, body=cst.IndentedBlock(body=body))])


def guard_condition(site: Site, node: ast.If) -> None:
    """Make the guard the first operand of a condition."""
    site.require("only-asks", not changes_something(node.test), "the condition has an effect")
    first = operands(node.test)[0]
    old = site.expression_node(first)
    loose = isinstance(old, (cst.BooleanOperation, cst.IfExp, cst.Lambda, cst.NamedExpr))
    right = operand(old) if loose else old
    between: cst.BaseBooleanOp = cst.And()
    around = site.expression_node(node.test)
    while around is not old and isinstance(around, cst.BooleanOperation):
        between, around = around.operator, around.left  # laid out like the others
    between = between.with_changes(
        whitespace_before=without_comments(between.whitespace_before),
        whitespace_after=without_comments(between.whitespace_after),
    )
    both = cst.BooleanOperation(left=not_compiling(site), operator=between, right=right)
    site.put(first, both, bare=True)


_CHANGING = frozenset(
    """
        append extend insert remove pop popleft popitem clear sort reverse update setdefault add
        discard write send step
    """.split()
)


_BINDING = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def changes_something(node: ast.AST) -> bool:
    """Whether evaluating this visibly binds a name or changes an object."""
    for inner in ast.walk(node):
        name = method_name(inner)
        changing = name in _CHANGING or (name.endswith("_") and not name.endswith("__"))
        advances = isinstance(inner, ast.Call) and ast.unparse(inner.func) == "next"
        if changing or advances or isinstance(inner, _BINDING):
            return True
    return False


def _only_gives(statement: ast.stmt) -> bool:
    """Whether a statement changes nothing but by the call that it is."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        parts = [*statement.value.args, *statement.value.keywords]
        return not any(changes_something(part) for part in parts)
    return not changes_something(statement)


def _may_change_something(test: ast.expr) -> bool:
    """The same, where methods of ``self`` are not trusted, either."""
    return changes_something(test) or any(
        isinstance(inner, ast.Call) and ast.unparse(inner.func).startswith(("self.", "cls."))
        for inner in ast.walk(test)
    )


def not_compiling(site: Site) -> cst.BaseExpression:
    """The question whether code runs outside the compiler, as the file can ask it."""
    try:
        return expression(f"not {use_torch(site)}.compiler.is_compiling()")
    except Declined:
        if site.finding.region is not None or site.finding.code.startswith(_OF_VALUES):
            return expression(f"not {add_torch(site)}.compiler.is_compiling()")
        raise


_LOG_METHODS = frozenset(
    """
        debug info warning warn error critical exception log warning_once info_once warning_advice
    """.split()
)


_WARNERS = frozenset(("warn", "warn_explicit", "showwarning"))
_WARNING = re.compile(r"(^|_)warn(ing)?(_once)?$")


def says(site: Site, statement: ast.stmt, logs: bool) -> bool:
    """Whether a statement is a call of print, a logger, warnings or a function that warns by its
    name (``rank_zero_warn``), and nothing else. ``logs``: the analysis says that its method logs.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return False
    name = site.ask.callee(call) or ""
    if name.startswith(("logging.", "warnings.")):
        return True
    if isinstance(call.func, ast.Name):
        return name in ("builtins.print", "pprint.pprint") or bool(_WARNING.search(call.func.id))
    return isinstance(call.func, ast.Attribute) and (logs or call.func.attr in _LOG_METHODS)


def only_sets(site: Site, statement: ast.stmt) -> bool:
    """Whether what ``says`` holds of sets what is shown, and shows nothing:
    ``warnings.simplefilter("ignore")``.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    module, _, last = (site.ask.callee(call) or "" if call is not None else "").partition(".")
    shown = _LOG_METHODS if module == "logging" else _WARNERS
    return module in ("logging", "warnings") and last.rpartition(".")[2] not in shown
