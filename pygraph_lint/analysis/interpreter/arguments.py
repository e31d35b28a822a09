"""The arguments of a call."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.symbols import is_given
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.state import CallSite, State
from pygraph_lint.analysis.syntax.nodes import source_of, span_of


def arguments(state: State, node: ast.Call) -> CallSite:
    """Evaluate the arguments of a call."""
    positional = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            positional.append(v.iterate(state.ev(argument.value)))
        else:
            positional.append(state.ev(argument))
    named = {}
    for keyword in node.keywords:
        value = state.ev(keyword.value)
        if keyword.arg is not None:
            named[keyword.arg] = value
    return CallSite(node, positional, named)


def has_starred(node: ast.Call) -> bool:
    """Whether ``*arguments`` make the number of positional arguments unknown."""
    return any(isinstance(argument, ast.Starred) for argument in node.args)


def note_formatted(
    state: State, value: Value, node: ast.AST, shown: ast.AST | None = None, **form: str
) -> None:
    """Record that a value, the expression ``shown``, is turned into text in ``node``; ``form`` says
    how, where Dynamo cannot trace it.
    """
    for part in (value, *(value.items or ())):
        known = part.is_tensor and not part.needs and not part.kinds & v.UNKNOWN
        if known or is_given(part):
            state.event("sync.format", span_of(node), source_of(shown or node), part, **form)
            return
