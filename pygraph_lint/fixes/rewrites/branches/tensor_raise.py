"""Check on the device instead of branching on a tensor to raise.

    if x.min() < 0: raise ValueError("negative")
    ->  torch._assert_async(~(x.min() < 0), "negative")

Always unsafe: the error is a RuntimeError, reported late, and on CUDA it ends the context. What is
no tensor for certain, or has a message that is computed, is checked outside compiled code only.
"""

from __future__ import annotations

import ast
from contextlib import suppress

import libcst as cst

from pygraph_lint.analysis.syntax.nodes import negated
from pygraph_lint.fixes.engine.build import bare, call, code, expression, inverted
from pygraph_lint.fixes.engine.imports import use_torch
from pygraph_lint.fixes.engine.site import Declined, Rewrite, Site
from pygraph_lint.fixes.shared import conditions
from pygraph_lint.fixes.shared.guards import changes_something, guard_condition, says


class TensorRaise(Rewrite):
    """PG303: ``if tensor: raise``, and what the condition of such a branch reads."""

    codes = (
        *("PG303", "PG201", "PG202", "PG204", "PG206", "PG207", "PG301", "PG307"),
        *("PG309", "PG401", "PG402", "PG403"),
    )
    message = "Check on the device, by `torch._assert_async`"
    kinds = (ast.If,)
    order = 30

    def rewrite(self, site: Site) -> None:
        node = site.tree
        assert isinstance(node, ast.If)
        if not conditions.is_within(site, node.test):
            raise Declined
        raises = _only_raises(site, node)
        if not raises and site.finding.code != "PG303":
            raise Declined
        site.require("only-raises", raises, "the branch does more than raise")
        steers = _may_be_caught(site, node.body[-1])
        site.require("uncaught", not steers, "the exception may be caught, and decide what is done")
        check, message = _check(site, node), _literal(site, node.body[0])
        others = conditions.is_elif(site, node) or node.orelse or _asks_more(site, node.test)
        others = others or "#" in code(site.expression_node(node.test))  # a comment beside one
        if check is None or message is None or others or site.finding.code != "PG303":
            site.message = "Check values only when not compiling"
            site.safe_only_if("compiled", False, "compiled code no longer makes this check")
            guard_condition(site, node)
            return
        site.safe_only_if(
            "asynchronous",
            False,
            "the error becomes a RuntimeError; on CUDA the process cannot use the GPU after it",
        )
        new = cst.Expr(call(f"{use_torch(site)}._assert_async", check, message))
        whole = site.source.alone(node.body[0])  # of its lines
        line = site.statement_node(node.body[0]) if whole else cst.SimpleStatementLine([])
        tested = conditions.tested_operands(site, node.test)
        statics = [each for each in conditions.operands(node.test) if each not in tested]
        site.put_branch(node, [line.with_changes(body=[new])], statics)


def _asks_more(site: Site, test: ast.expr) -> bool:
    """Whether a condition asks behind a tensor for what may raise, or has an effect."""
    with suppress(Declined):
        return any(
            conditions.asked_anyway(site, test, each)
            for each in conditions.tested_operands(site, test)[:1]
        )
    return True


def _only_raises(site: Site, node: ast.If) -> bool:
    """Whether the branch raises, and does nothing else but say why."""
    *before, last = node.body
    local = {
        target.id
        for each in before
        if isinstance(each, ast.Assign) and not changes_something(each.value)
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    plain = all(
        says(site, each, False)
        or (
            isinstance(each, ast.Assign)
            and all(getattr(t, "id", "") in local for t in each.targets)
        )
        for each in before
    )
    return plain and isinstance(last, ast.Raise)


def _may_be_caught(site: Site, statement: ast.stmt) -> bool:
    """Whether an exception is of the project's own, or of a kind that the file catches where it
    runs code of its own.
    """
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    kind = raised.func if isinstance(raised, ast.Call) else raised
    name = "" if kind is None else site.ask.qualified(kind) or ""
    if not name.startswith("builtins."):
        return isinstance(statement, ast.Raise)
    caught = [
        ast.unparse(handler.type) if handler.type is not None else name
        for handler in site.ask.of_kind(ast.ExceptHandler)
        if _runs_own(site, site.ask.parent(handler))
    ]
    return any(name.removeprefix("builtins.") in each for each in caught)


def _runs_own(site: Site, node: ast.AST | None) -> bool:
    """Whether the body of a try raises, or calls more than functions of other files."""
    parts = (part for each in getattr(node, "body", ()) for part in ast.walk(each))
    found = [part for part in parts if isinstance(part, (ast.Call, ast.Raise))]
    own = f"{site.ask.view.module}."
    return any((site.ask.callee(each) or own).startswith(own) for each in found)


def _check(site: Site, node: ast.If) -> cst.BaseExpression | None:
    """What must hold, as a tensor; None where the condition is not certainly one."""
    tensors = conditions.tested_operands(site, node.test)
    if len(tensors) != 1:
        return None
    part = tensors[0]
    opposite = negated(part)
    inner = part if opposite is None else opposite
    if not conditions.is_truth(site, inner):
        return None
    found = site.expression_node(inner)
    if opposite is not None:
        return found
    if site.ask.known(inner).dtype == "bool" or isinstance(inner, ast.Compare):
        return inverted(found)
    return call(f"{use_torch(site)}.logical_not", found)


def _literal(site: Site, statement: ast.stmt) -> cst.BaseExpression | None:
    """The message of ``raise Error("text")``, as it is written."""
    raised = statement.exc if isinstance(statement, ast.Raise) else None
    if not isinstance(raised, ast.Call) or len(raised.args) != 1 or raised.keywords:
        return None
    message = raised.args[0]
    if not isinstance(message, ast.Constant) or not isinstance(message.value, str):
        return None
    try:
        return bare(site.expression_node(message))
    except Declined:
        return expression(repr(message.value))
