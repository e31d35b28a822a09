"""Containers written out, comprehensions, formatted strings, lambdas."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.domain import values as v
from pygraph_lint.analysis.domain.values import Value
from pygraph_lint.analysis.interpreter.arguments import note_formatted
from pygraph_lint.analysis.interpreter.assignment import assign
from pygraph_lint.analysis.interpreter.conditions import narrow, truth
from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.interpreter.transfer.containers import merged, with_entry
from pygraph_lint.analysis.syntax.nodes import walk

_COUNTED = frozenset(
    f"builtins.{name}" for name in "enumerate zip range len list tuple reversed sorted".split()
)


def eval_sequence(state: State, node: ast.Tuple | ast.List | ast.Set) -> Value:
    """``(a, b)``, ``[a, b]``, ``{a, b}``."""
    values = [state.ev(element) for element in node.elts]
    if isinstance(node, ast.Set):
        state.note_known(node.elts)
    if any(isinstance(element, ast.Starred) for element in node.elts):
        held = [
            v.iterate(value) if isinstance(element, ast.Starred) else value
            for element, value in zip(node.elts, values)
        ]
        return Value(v.SEQUENCE, item=v.join_all(held), flags=_listed(node))
    return v.sequence(values)._replace(flags=_listed(node))


def _listed(node: ast.expr) -> int:
    return v.LIST if isinstance(node, (ast.List, ast.ListComp)) else 0


def eval_dict(state: State, node: ast.Dict) -> Value:
    """``{"key": value, **others}``."""
    made = v.mapping({})
    for key, held in zip(node.keys, node.values):
        if key is None:
            made = merged(made, state.ev(held))
        else:
            index = state.ev(key)
            state.note_known([key])
            made = with_entry(made, index, state.ev(held))
    return made


def eval_comprehension(
    state: State, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Value:
    """``[x for x in xs if test]``, and the same of sets, generators and dictionaries."""
    saved = enter_generators(state, node.generators)
    if isinstance(node, ast.DictComp):
        state.ev(node.key)
        state.note_known([node.key])
        made = Value(v.MAPPING, item=v.shallow(state.ev(node.value), 2))
    else:
        item = v.shallow(state.ev(node.elt), 2)
        state.note_known([node.elt] if isinstance(node, ast.SetComp) else [])
        made = Value(v.SEQUENCE, item=item, flags=_listed(node))
    state.restore(saved)
    return made


def enter_generators(
    state: State, generators: list[ast.comprehension]
) -> list[tuple[str, Value | None]]:
    """Bind the targets of a comprehension; returns what to restore."""
    saved: list[tuple[str, Value | None]] = []
    for generator in generators:
        iterated = state.ev(generator.iter)
        state.note_known(counted(state, generator.iter))
        saved += [(name, state.env.get(name)) for name in names_of(generator.target)]
        assign(state, generator.target, v.iterate(iterated), None)
        for condition in generator.ifs:
            truth(state, condition, "branch.if")
            saved += narrow(state, condition, True)
    return saved


def counted(state: State, iterated: ast.expr) -> Iterator[ast.expr]:
    """The expressions that say how often a loop runs which goes over ``iterated``."""
    front = [iterated]
    while front:
        node = front.pop()
        node = node.value if isinstance(node, ast.Starred) else node
        if isinstance(node, ast.Call) and state.qualified(node.func) in _COUNTED:
            front += node.args
        else:
            yield state.sized.get(node.id, node) if isinstance(node, ast.Name) else node


def eval_joined(state: State, node: ast.JoinedStr) -> Value:
    """``f"{value}"``."""
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = state.ev(part.value)
            note_formatted(state, value, node, part.value)
    return v.TEXT_VALUE


def eval_lambda(state: State, node: ast.Lambda) -> Value:
    """``lambda x: ...``: its body is run once with unknown arguments."""
    saved: list[tuple[str, Value | None]] = []
    for argument in parameters(node):
        saved.append((argument.arg, state.env.get(argument.arg)))
        state.env[argument.arg] = v.UNKNOWN_VALUE
    state.ev(node.body)
    state.restore(saved)
    return Value(v.CALLABLE)


def eval_named(state: State, node: ast.NamedExpr) -> Value:
    """``(name := value)``."""
    value = state.ev(node.value)
    assign(state, node.target, value, node.value)
    return value


def eval_inner(state: State, node: ast.Starred | ast.Await) -> Value:
    """``*value`` and ``await value``."""
    return state.ev(node.value)


def eval_yield(state: State, node: ast.Yield | ast.YieldFrom) -> Value:
    """``yield value`` and ``yield from values``."""
    value = state.ev(node.value)
    if not state.quiet:
        value = v.iterate(value) if isinstance(node, ast.YieldFrom) else value
        old = state.yields
        state.yields = value if old is None else v.join(old, value)
    return v.UNKNOWN_VALUE


def names_of(target: ast.expr) -> list[str]:
    """The names that an assignment to ``target`` binds."""
    names = (each for each in walk(target) if isinstance(each, ast.Name))
    return [each.id for each in names if isinstance(each.ctx, ast.Store)]
