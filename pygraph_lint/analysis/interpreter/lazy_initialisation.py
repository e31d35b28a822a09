"""Lazy initialisation: code that runs on the first call only, as what it stores ends the condition
that it stands under.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.analysis.interpreter.state import State
from pygraph_lint.analysis.syntax.literal_tests import asks_for_none
from pygraph_lint.analysis.syntax.nodes import always_run, dotted, receiver, walk, without_not


class _Ending(NamedTuple):
    """What ends a condition: a place that outlives the call, as it is written, gets ``flag``, or
    where that is None anything but None.
    """

    place: str
    flag: bool | None = None


def missing_or_small(test: ast.expr, holds: bool) -> ast.expr | None:
    """Of ``self.table is None or n > len(self.table)`` what asks whether there is a table: such a
    branch runs on the first call, and where one needs more; None for other conditions.
    """
    test, holds = without_not(test, holds)
    if not isinstance(test, ast.BoolOp) or isinstance(test.op, ast.Or) is not holds:
        return None
    first, *others = test.values
    if asks_for_none(first) is not holds or not isinstance(first, ast.Compare):
        return None
    written = ast.unparse(first.left)
    return first if all(written in ast.unparse(each) for each in others) else None


def runs_once(state: State, node: ast.If, test: ast.expr) -> bool:
    """Whether a branch sets up what outlives the call: ``if self.unset: ...; self.unset = False``,
    ``if key not in self.kept: ...; self.kept[key] = ...``, ``if self.table is None: self.table =
    ...``, ``if not hasattr(self, "table"): self.table = ...``, and ``kept = table.get(key)``, then
    ``if kept is None: table[key] = ...``.
    """
    endings = [found for each in _all_of(test) if (found := _ending(state, each, True))]
    stores = (each for statement in node.body for each in walk(statement))
    return bool(endings) and any(_ends(state, each, store) for store in stores for each in endings)


def _all_of(test: ast.expr) -> list[ast.expr]:
    """The conditions that all hold where one does."""
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def is_before_set_up(state: State, test: ast.expr, holds: bool) -> bool:
    """Whether a condition asks for an attribute of the object, comes out so where there is none,
    and a method other than the constructor sets it: ``hasattr(self, "words")``.
    """
    test, holds = without_not(test, holds)
    place = _asked_for(state, test)
    if holds or place is None or not state.is_self(place.value):
        return False
    return state.module.is_rebound(state.owner, place.attr) and not state.module.is_unset(
        place.attr
    )


def _asked_for(state: State, test: ast.expr) -> ast.Attribute | None:
    """The attribute for which ``hasattr(holder, "name")`` asks."""
    if not isinstance(test, ast.Call) or len(test.args) != 2:
        return None
    holder, name = test.args
    if state.qualified(test.func) != "builtins.hasattr" or not isinstance(name, ast.Constant):
        return None
    return ast.Attribute(holder, str(name.value))


def sets_up_below(state: State, node: ast.If, test: ast.expr) -> bool:
    """Whether what follows a branch that returns sets up so: ``if self.ready: return``, then
    ``self.ready = True``.
    """
    statements = list(state.body.statements)
    if node not in statements or not isinstance(node.body[-1], ast.Return):
        return False
    ending = _ending(state, test, False)
    below = always_run(statements[statements.index(node) + 1 :])
    return ending is not None and any(_ends(state, ending, each) for each in below)


def _ending(state: State, test: ast.expr, holds: bool) -> _Ending | None:
    """What ends a condition that comes out as said; None where nothing that outlives the call
    does.
    """
    test, holds = without_not(test, holds)
    of_none = asks_for_none(test)
    if of_none is not None and isinstance(test, ast.Compare):
        return _of_missing(state, test.left) if of_none is holds else None
    if isinstance(test, ast.Compare):
        listed = isinstance(test.ops[0], ast.NotIn if holds else ast.In) and len(test.ops) == 1
        kept = test.comparators[0]
        if not listed or not _is_kept(state, kept):
            return None
        return _Ending(ast.unparse(ast.Subscript(kept, test.left)))
    if isinstance(test, ast.Call) and not holds:
        place = _asked_for(state, test)
        return _of_missing(state, place) if place is not None else None
    return _Ending(_written(test), not holds) if _outlives(state, test) else None


def _of_missing(state: State, place: ast.expr) -> _Ending | None:
    """What ends that there is nothing at a place yet, or where a variable was read from."""
    if isinstance(place, ast.Name):
        place = _read_from(state, place.id) or place
    if isinstance(place, ast.Attribute):
        made_anew = state.is_self(place.value) and not state.module.is_lasting(state.owner)
        if made_anew or state.module.is_unset(place.attr):
            return None
    return _Ending(_written(place)) if _outlives(state, place) else None


def _read_from(state: State, name: str) -> ast.expr | None:
    """The entry of a mapping that is read into a variable: ``kept = table.get(key)``."""
    for each in state.body.own:
        if isinstance(each, ast.Assign) and getattr(each.targets[0], "id", "") == name:
            read = each.value
            holder = receiver(read, ("get",)) if isinstance(read, ast.Call) else None
            if holder is None or not isinstance(read, ast.Call) or len(read.args) != 1:
                return None
            return ast.Subscript(holder, read.args[0])
    return None


def _written(node: ast.expr) -> str:
    """An expression as text."""
    return dotted(node) or ast.unparse(node)


def _outlives(state: State, place: ast.expr) -> bool:
    """Whether what is stored at a place is there on the next call."""
    if isinstance(place, ast.Attribute):
        return state.is_self(place.value) or state.qualified(place) is not None
    if isinstance(place, ast.Subscript):
        return _is_kept(state, place.value)
    if not isinstance(place, ast.Name) or not state.module.may_have("global"):
        return False
    declared = (each for each in state.body.own if isinstance(each, ast.Global))
    return any(place.id in each.names for each in declared)


def _is_kept(state: State, holder: ast.expr) -> bool:
    """Whether a mapping is no variable of the function, or one that an attribute holds."""
    if isinstance(holder, ast.Attribute) or dotted(holder) not in (None, *state.env):
        return True
    return isinstance(holder, ast.Name) and any(
        _reads_attribute(state, each.value)
        for each in state.body.own
        if isinstance(each, ast.Assign)
        and any(isinstance(to, ast.Name) and to.id == holder.id for to in each.targets)
    )


def _reads_attribute(state: State, node: ast.expr) -> bool:
    """``self.kept``, ``getattr(model, "kept", None)``."""
    if isinstance(node, ast.Call):
        return state.qualified(node.func) == "builtins.getattr"
    return isinstance(node, ast.Attribute)


def _ends(state: State, ending: _Ending, node: ast.AST) -> bool:
    """Whether a statement, or a call that adds a buffer, ends a condition."""
    if isinstance(node, ast.Expr):
        node = node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.args[0] if len(node.args) > 1 else None
        if not node.func.attr.startswith("register_") or not isinstance(name, ast.Constant):
            return False
        written = f"{_written(node.func.value)}.{name.value!s}"
        return ending.flag is None and written == ending.place
    if not isinstance(node, ast.Assign):
        return False
    constant = isinstance(node.value, ast.Constant)
    value = node.value.value if isinstance(node.value, ast.Constant) else None
    fits = value is ending.flag if ending.flag is not None else not constant or value is not None
    return fits and any(_written(each) == ending.place for each in node.targets)
