"""Statements that do not branch."""

from __future__ import annotations

import ast

from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.assignment import assign
from pygraph_lint.analysis.interpreter.conditions import asked, narrow, only_if, truth
from pygraph_lint.analysis.interpreter.host_tensors import MADE
from pygraph_lint.analysis.interpreter.operators import OPERATORS, arithmetic
from pygraph_lint.analysis.interpreter.project_calls import note_operator, operator_in_place
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.program.annotations import annotated
from pygraph_lint.analysis.syntax.nodes import source_of, span_of


def exec_assign(state: State, node: ast.Assign) -> None:
    """``target = value``."""
    value = state.ev(node.value)
    for target in node.targets:
        assign(state, target, value, node.value)


def exec_annotated(state: State, node: ast.AnnAssign) -> None:
    """``target: Annotation = value``."""
    value = (
        state.ev(node.value)
        if node.value is not None
        else annotated(state.module.names, node.annotation, "")
    )
    if node.value is not None and value.kinds & v.UNKNOWN and not value.is_tensor:
        declared = annotated(state.module.names, node.annotation, source_of(node.target))
        if declared.kinds != v.UNKNOWN:
            value = declared
    assign(state, node.target, value, node.value)


def exec_augmented(state: State, node: ast.AugAssign) -> None:
    """``target += value``."""
    target = node.target
    load: ast.expr
    if isinstance(target, ast.Name):
        load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
    elif isinstance(target, ast.Attribute):
        load = ast.copy_location(ast.Attribute(target.value, target.attr, ast.Load()), target)
    else:
        load = ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target)
    old = state.ev(load)
    added = state.ev(node.value)
    note_operator(state, node, old, added)
    note_operator(state, node, added, old)
    made = operator_in_place(state, node, OPERATORS[type(node.op)], load, old)
    value = arithmetic(state, type(node.op), old, added, node) if made is None else made
    if old.is_tensor and not added.is_tensor:
        value = value._replace(dtype=old.dtype)
    if old.kinds == v.TENSOR and old.device == v.ON_HOST:  # in place: it stays there
        value = value._replace(device=v.ON_HOST, ndim=old.ndim)
    if isinstance(target, ast.Subscript) and not state.ev_quiet(target.value).kinds & v.MAPPING:
        return
    assign(state, target, value, None)


def exec_return(state: State, node: ast.Return) -> bool:
    """``return value``, which is joined with what else the function returns."""
    value = state.ev(node.value)
    if not state.quiet:
        old = state.function.returns
        kept = only_if(v.shallow(value, 2), v.NONE_VALUE, asked((), state.guards))
        state.function.returns = kept if old is None else v.join(old, kept)
    return True


def exec_raise(state: State, node: ast.Raise) -> bool:
    """``raise error``: what makes the error is not reported."""
    state.quiet += 1
    state.ev(node.exc)
    state.quiet -= 1
    return True


def exec_expression(state: State, node: ast.Expr) -> None:
    """An expression whose value nothing gets."""
    state.ev(node.value)
    place = span_of(node.value)
    for kind in MADE if isinstance(node.value, ast.Call) else ():
        made = state.events.get((kind, place.line, place.column))
        if made is not None and made.span == place and made.note("placed") is None:
            # What nothing gets is not copied.
            del state.events[(kind, place.line, place.column)]


def exec_assert(state: State, node: ast.Assert) -> None:
    """``assert test, message``."""
    plain = node.msg is None or isinstance(node.msg, ast.Constant)
    truth(state, node.test, "branch.assert" if plain else "branch.if")
    if node.msg is not None:
        state.quiet += 1
        state.ev(node.msg)
        state.quiet -= 1
    narrow(state, node.test, True)


def exec_delete(state: State, node: ast.Delete) -> None:
    """``del name``."""
    for target in node.targets:
        if isinstance(target, ast.Name):
            state.env[target.id] = v.UNKNOWN_VALUE


def exec_stop(state: State, node: ast.stmt) -> bool:
    """break and continue: the rest of the body is not reached on this path."""
    if state.stops is not None:
        state.stops.append(state.env)
    return True


def exec_import(state: State, node: ast.Import | ast.ImportFrom) -> None:
    """``import module`` inside a function."""
    for name, target in state.module.imports(node):
        state.env[name] = Value(v.CALLABLE, cls=target)
