"""Branches that run on the first call only: what they store ends their condition."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.literals import asks_for_none
from pygraph_lint.analysis.nodes import dotted, walk
from pygraph_lint.analysis.state import State


def runs_once(state: State, node: ast.If) -> bool:
    """Whether a branch sets up what outlives the call: ``if self.unset: ...; self.unset = False``,
    ``if key not in self.kept: ...; self.kept[key] = ...``, ``if self.table is None: self.table =
    ...`` and ``if not hasattr(self, "table"): self.table = ...``.
    """
    test, positive = node.test, True
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, positive = test.operand, False
    missing = _missing(state, test, positive)
    if missing:
        return any(name == missing for name in _made(state, node.body)) and not (
            state.module.is_unset(missing)
        )
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.NotIn if positive else ast.In):
        kept = test.comparators[0]
        outlives = isinstance(kept, ast.Attribute) or dotted(kept) not in (None, *state.env)
        return outlives and len(test.ops) == 1 and _is_kept(node.body, test.left, kept)
    if not isinstance(test, ast.Attribute) or not state.is_self(test.value):
        return False
    return any(
        isinstance(each, ast.Assign)
        and dotted(each.targets[0]) == dotted(test)
        and isinstance(each.value, ast.Constant)
        and each.value.value is not positive
        for each in node.body
    )


def _missing(state: State, test: ast.expr, positive: bool) -> str:
    """The attribute of ``self`` that there is not yet where a condition holds; empty for others."""
    if asks_for_none(test) is positive and isinstance(test, ast.Compare):
        held = test.left
        return held.attr if isinstance(held, ast.Attribute) and state.is_self(held.value) else ""
    if positive or not isinstance(test, ast.Call) or len(test.args) != 2:
        return ""
    holder, name = test.args
    asked = state.qualified(test.func) == "builtins.hasattr" and state.is_self(holder)
    return str(name.value) if asked and isinstance(name, ast.Constant) else ""


def _made(state: State, body: list[ast.stmt]) -> Iterator[str]:
    """The attributes of ``self`` that statements give a value, and the buffers that they add."""
    for node in (each for statement in body for each in walk(statement)):
        if isinstance(node, ast.Assign) and not _is_none(node.value):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and state.is_self(target.value):
                    yield target.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.args[0] if len(node.args) > 1 else None
            registers = node.func.attr.startswith("register_") and state.is_self(node.func.value)
            if registers and isinstance(name, ast.Constant):
                yield str(name.value)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_kept(body: list[ast.stmt], key: ast.expr, kept: ast.expr) -> bool:
    """Whether something is stored under ``key`` in ``kept``."""
    place = ast.dump(kept)
    return any(
        isinstance(target, ast.Subscript)
        and ast.dump(target.value) == place
        and ast.dump(target.slice) == ast.dump(key)
        for statement in body
        for each in walk(statement)
        if isinstance(each, ast.Assign)
        for target in each.targets
    )
