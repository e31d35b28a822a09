"""Statements beside each other that end the graph are moved to a function that is left out.

    low = x.min().item()                   ->  low, high = _read_low(x)
    high = x.max().item()
    rows = [assign(each) for each in x]    ->  rows = _read_rows(x)

Each of them, or each turn of a comprehension, ended the graph, now the call does; what stands
between them and is light goes with them. A call of what is left out already ends the graph, too.
Always unsafe: an export does not see into the function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import chain, pairwise

from pygraph_lint.analysis.syntax.nodes import first_line, root_and_path
from pygraph_lint.fixes.engine.imports import imported_above, use_torch
from pygraph_lint.fixes.engine.line_breaks import wrap
from pygraph_lint.fixes.engine.names import all_nodes, loads, shared
from pygraph_lint.fixes.engine.site import LOOKING, Declined, Rewrite, Site
from pygraph_lint.fixes.shared.breaking_places import Path, breaking_places, in_avoided_arm
from pygraph_lint.fixes.shared.disable import leave_out
from pygraph_lint.fixes.shared.forwarding import FEW, operations, top_of
from pygraph_lint.fixes.shared.light_calls import is_light

_TIED = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp)


class BreakingStatements(Rewrite):
    """Rules of what ends the graph, in one of several statements that do, or in the turns of a
    comprehension.
    """

    codes = (
        *("PG201", "PG202", "PG203", "PG205", "PG206", "PG207", "PG301"),
        *("PG401", "PG402", "PG403", "PG404", "PG407", "PG507", "PG510", "PG523"),
    )
    message = "Move the statements to a function with `@torch.compiler.disable`"
    order = 99
    trusting = True

    def rewrite(self, site: Site) -> None:
        statement, function = site.statement, site.function
        top = top_of(site, statement)
        if not isinstance(function, ast.FunctionDef) or top is None:
            raise Declined
        if site.finding.filename.endswith(".ipynb"):
            raise Declined("a function above would stand in another cell of the notebook")
        site.expect_compiler()
        moved, turned = _moved(site, statement, function)
        often = len(turned) + sum(turned)
        site.require("several", often > 1, "")
        nodes = [node for each in moved for node in all_nodes(each)]
        site.require("light", operations(site, nodes) <= FEW * often, "")
        given, made = _given(site, function, nodes), _made(moved)
        known = not any(site.ask.may_be_unbound(name.id, name) for name in given)
        site.require("known", known, "a name that is read may have no value")
        own = not any(
            shared(function, name) or any(site.ask.scope(load) is not function for load in found)
            for name in made
            for found in [loads(function, name)]
        )
        tried = any(_catches(site, each) for each in _around(site, statement, function))
        looks = any(getattr(each, "id", "") in LOOKING for each in all_nodes(function))
        site.require("own", own and not tried and not looks, "others may read the names in between")
        if not imported_above(site, use_torch(site), top):
            raise Declined("torch is imported below the function")
        leave_out(site)
        names = sorted(dict.fromkeys(each.id for each in given), key=lambda each: each != "self")
        # In a loop, the next turn may read what this one made.
        ends = isinstance(moved[-1], ast.Return)
        used = [it for it in made if not ends and (it in names or site.ask.used_outside(it, moved))]
        _move(site, moved, names, used, any(turned))


def _moved(
    site: Site, statement: ast.stmt, function: ast.FunctionDef
) -> tuple[list[ast.stmt], list[bool]]:
    """The statements that can move with one, from the first to the last that ends the graph, and
    for each that does whether it does so in the turns of a comprehension. At least one does so in
    every call.
    """
    places = breaking_places(site, function, BreakingStatements.codes)
    breaking = {path[-1] for path in places}
    found: list[ast.stmt] = []
    for each in site.block(statement):
        if _can_move(site, each, breaking):
            found.append(each)
        elif statement in found:
            break
        else:
            found = []
    ends = {each: [path for path in places if each in path] for each in found}
    where = [number for number, each in enumerate(found) if ends[each]]
    sure = any(
        not in_avoided_arm(path[path.index(each) :], []) for each in found for path in ends[each]
    )
    if statement not in found or not sure:
        raise Declined
    turned = [any(map(_in_turns, ends[found[number]])) for number in where]
    return found[where[0] : where[-1] + 1], turned


def _in_turns(path: Path) -> bool:
    """Whether a place is in the element of a comprehension."""
    return any(
        isinstance(node, _COMPREHENSIONS)
        and inner in (getattr(node, name, None) for name in ("elt", "key", "value"))
        for node, inner in pairwise(path)
    )


def _can_move(site: Site, statement: ast.stmt, breaking: set[ast.AST]) -> bool:
    """Whether a statement does nothing but end the graph, or is light; a branch, if its arms do no
    more, and give no name a value.
    """
    text, nodes = site.source.segment(statement), all_nodes(statement)
    calls = (each for each in nodes if isinstance(each, ast.Call) and each not in breaking)
    left_out = (getattr(each, "func", None) for each in breaking.intersection(nodes))
    return (
        isinstance(statement, (ast.Assign, ast.Expr, ast.If, ast.Return))
        and (not isinstance(statement, ast.If) or _only_sets(statement))
        and site.source.alone(statement)
        and not re.search(r"\"{3}|'{3}|\\\r?$", text, re.MULTILINE)  # strings of several lines
        and not _is_tied(nodes)
        and not any(_has_more(site, each) for each in nodes)
        and all(is_light(site, each) for each in calls)
        and not any(_OWN.match(getattr(each, "id", "")) for each in left_out)
    )


#: How the functions are named that this rewrite makes; a call of one ends the graph once already.
_OWN = re.compile("_(read|write)_")


def _only_sets(branch: ast.If) -> bool:
    """Whether the arms of a branch are plain statements that bind no name."""
    arms = (*branch.body, *branch.orelse)
    return all(
        isinstance(each, ast.Expr)
        or (isinstance(each, ast.If) and _only_sets(each))
        or (isinstance(each, ast.Assign) and not _made([each]))
        for each in arms
    )


def _has_more(site: Site, node: ast.AST) -> bool:
    """Whether a node is a function of its own, which may run later, or work."""
    product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    user = site.ask.parent(node) if isinstance(node, ast.GeneratorExp) else None
    used_up = isinstance(user, ast.Call) and site.ask.callee(user) in _USING_UP
    later = isinstance(node, ast.Lambda) or (isinstance(node, ast.GeneratorExp) and not used_up)
    return product or later


_USING_UP = frozenset(
    f"builtins.{name}"
    for name in ("max", "min", "sum", "any", "all", "list", "tuple", "set", "dict", "sorted")
)


def _catches(site: Site, node: ast.AST) -> bool:
    """Whether the code behind a block may run after an error in it: a context manager that is not
    torch's may do what `contextlib.suppress` does.
    """
    managers = [each.context_expr for each in node.items] if isinstance(node, ast.With) else []
    calls = (each.func if isinstance(each, ast.Call) else each for each in managers)
    names = (site.ask.qualified(each) or "" for each in calls)
    tries = type(node).__name__ in ("Try", "TryStar")
    return tries or not all(each.startswith("torch.") for each in names)


def _around(site: Site, statement: ast.stmt, function: ast.FunctionDef) -> list[ast.AST]:
    path = [*site.ask.path(statement)]
    return path[: path.index(function)]


def _given(site: Site, function: ast.FunctionDef, nodes: list[ast.AST]) -> list[ast.Name]:
    """The reads of what the function around gave a name before, in order."""
    inside = set(nodes)
    names = [each for each in nodes if isinstance(each, ast.Name)]
    names.sort(key=lambda each: (each.lineno, each.col_offset))
    flow = site.ask.definitions.flow(function)
    return [
        each
        for each in names
        if isinstance(each.ctx, ast.Load) and flow.binds(each.id)
        if any(one.node not in inside for one in site.ask.definitions.reaching(each))
    ]


def _made(moved: list[ast.stmt]) -> list[str]:
    """The names that statements give a value, in order."""
    targets = chain.from_iterable(getattr(each, "targets", ()) for each in moved)
    nodes = chain.from_iterable(map(ast.walk, targets))
    names = (each for each in nodes if isinstance(each, ast.Name))
    return list(dict.fromkeys(each.id for each in names if isinstance(each.ctx, ast.Store)))


def _move(
    site: Site, moved: list[ast.stmt], given: list[str], used: list[str], turned: bool
) -> None:
    """Note the new function, and its call in place of the statements. ``turned``: what it calls is
    left out, too: a comprehension is a function of its own before Python 3.12.
    """
    source, torch = site.source, use_torch(site)
    unit, width, indent = source.indent_unit, source.width, source.indent(moved[0])
    name = site.free(f"_read_{used[0]}" if used else _named_by_writes(moved))
    text = source.lines(moved[0].lineno, moved[-1])
    lines = re.split(r"\r\n|\r|\n", text.rstrip("\r\n \t"))
    if not all(line.startswith(indent) or not line.strip() for line in lines):
        raise Declined("the layout of the code is not followed")
    results = ", ".join(used)
    body = [f"{unit}{line[len(indent) :]}" if line.strip() else "" for line in lines]
    last = wrap(f"{unit}return {results}", width, unit) if used else []
    head = wrap(f"def {name}({', '.join(given)}):", width, unit)
    decorator = f"@{torch}.compiler.disable{'' if turned else '(recursive=False)'}"
    _put_above(site, moved[0], [decorator, *head, *body, *last])
    before = "return " if isinstance(moved[-1], ast.Return) else f"{results} = " if used else ""
    lines = wrap(f"{indent}{before}{name}({', '.join(given)})", width, unit)
    if len(lines[0]) > width and len(used) > 1:
        targets = (f"{indent}{unit}{each}," for each in used)
        first, *more = wrap(f"{indent}_ = {name}({', '.join(given)})", width, unit)
        lines = [f"{indent}(", *targets, first.replace("_", ")", 1), *more]
    start = source.line_start(moved[0].lineno)
    end = start + len(text.rstrip("\r\n"))
    site.replace(start, end, source.newline.join(lines), whole=True)


def _named_by_writes(moved: list[ast.stmt]) -> str:
    """The name of a function that returns no name: by what its statements write to, or set."""
    targets = [*chain.from_iterable(getattr(each, "targets", ()) for each in moved)]
    written = (root_and_path(each.value) for each in targets if isinstance(each, ast.Subscript))
    named = (root.id for root, path in written if isinstance(root, ast.Name) and not path)
    first = next(named, None)
    if first is not None:
        return f"_write_{first}"
    held = [each.attr.strip("_") for each in targets if isinstance(each, ast.Attribute)]
    return f"_read_{next(filter(None, held), 'values')}"


def _is_tied(nodes: Sequence[ast.AST]) -> bool:
    """Whether code among these nodes only means the same in its own function or class."""
    return any(
        isinstance(each, _TIED)
        or (isinstance(each, ast.Name) and (each.id == "super" or each.id.startswith("__")))
        or (isinstance(each, ast.Attribute) and each.attr.startswith("__"))
        or (isinstance(each, ast.keyword) and (each.arg or "").startswith("__"))
        for each in nodes
    )


def _put_above(site: Site, place: ast.AST, lines: list[str]) -> None:
    """Note a new function above the module's statement in which a place stands."""
    top, source = top_of(site, place), site.source
    assert top is not None
    start, body = first_line(top), source.tree.body
    before = body[body.index(top) - 1].end_lineno if top is not body[0] else 0
    while start > (before or 0) + 1 and source.line(start - 1).startswith("#"):
        start -= 1
    offset = source.line_start(start)
    site.replace(offset, offset, source.newline.join([*lines, "", "", ""]))
