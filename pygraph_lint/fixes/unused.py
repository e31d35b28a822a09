"""Statements taken out of a function, with the comments above them and what only they used."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from itertools import groupby

from pygraph_lint.fixes.names import loads, stores
from pygraph_lint.fixes.proposal import Proposal
from pygraph_lint.fixes.source import Source
from pygraph_lint.fixes.tensors import pure_expression


def take_out(proposal: Proposal, body: list[ast.stmt], statements: Iterable[ast.stmt]) -> None:
    """Take statements of a body out, with the lines of comments directly above each.

    Blank lines go where nothing is left that they would set apart.
    """
    source = proposal.source
    places = sorted(body.index(statement) for statement in statements)
    runs = [list(run) for _, run in groupby(places, key=lambda place: place - places.index(place))]
    for run in runs:
        first, last = _first_line(source, body[run[0]]), body[run[-1]].end_lineno
        assert last is not None
        leading = run[0] == 0 or _is_docstring(body[run[0] - 1])
        if leading or not source.line(first - 1).strip():
            while run[-1] + 1 < len(body) and not source.line(last + 1).strip():
                last += 1
        proposal.replace(source.line_start(first), source.line_start(last + 1), "")


def _first_line(source: Source, statement: ast.stmt) -> int:
    line = statement.lineno
    while source.line(line - 1).lstrip().startswith("#"):
        line -= 1
    return line


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def no_longer_used(
    proposal: Proposal, body: list[ast.stmt], gone: Iterable[ast.AST]
) -> list[ast.stmt]:
    """The statements of a body that only compute names which, without ``gone``, nothing reads
    but each other.
    """
    function = proposal.function
    assert function is not None
    dead = {node for item in gone for node in ast.walk(item)}
    computing: dict[str, list[ast.stmt]] = {}
    for statement in body:
        name = _only_computes(proposal, statement)
        if name is not None and statement not in dead:
            computing.setdefault(name, []).append(statement)
    uses = {name: {*loads(function, name), *stores(function, name)} for name in computing}
    while True:
        without = dead.union(*(ast.walk(item) for those in computing.values() for item in those))
        used = [name for name in computing if not uses[name] <= without]
        if not used:
            break
        for name in used:
            del computing[name]
    return _reached(computing, uses, dead)


def _reached(
    computing: dict[str, list[ast.stmt]], uses: dict[str, set[ast.AST]], dead: set[ast.AST]
) -> list[ast.stmt]:
    """The statements whose names are read by what is gone, or by others of them: what nothing read
    before stays.
    """
    found: list[ast.stmt] = []
    while True:
        names = [name for name in computing if uses[name] & dead]
        if not names:
            return found
        for name in names:
            found += computing.pop(name)
        dead = dead.union(*(ast.walk(item) for item in found))


def _only_computes(proposal: Proposal, statement: ast.stmt) -> str | None:
    """The name that a statement computes and does nothing else."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name) or not pure_expression(proposal, statement.value):
        return None
    return target.id
