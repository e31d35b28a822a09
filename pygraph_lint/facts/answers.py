"""Functions that keep their answer: cached, without parameters. torch.compile looks through the
cache and traces such a function anew in each call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pygraph_lint.facts.events import Need
from pygraph_lint.facts.model import FunctionFacts
from pygraph_lint.facts.names import FunctionNode, Names, module_statements

if TYPE_CHECKING:
    from pygraph_lint.facts.link import Project

_CACHES = ("functools.lru_cache", "functools.cache")
_ENDING_EVENTS = ("effect.log", "effect.lock")
_ENDING_CALLS = ("logging.", "warnings.", "builtins.print", "print")


def keeps_answer(node: FunctionNode, names: Names) -> bool:
    """Whether a function takes no arguments and, cached, gives the same object each time."""
    taken = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    if taken or node.args.vararg or node.args.kwarg or isinstance(node, ast.AsyncFunctionDef):
        return False
    for decorator in node.decorator_list:
        inner = decorator.func if isinstance(decorator, ast.Call) else decorator
        if names.resolve(inner) not in _CACHES:
            continue
        given = (
            [*decorator.args, *(item.value for item in decorator.keywords)]
            if isinstance(decorator, ast.Call)
            else []
        )
        return all(isinstance(item, ast.Constant) and item.value != 0 for item in given)
    return False


def asked_on_import(tree: ast.Module, names: Names) -> Iterator[str]:
    """Qualified names of what every import of a module calls without arguments."""
    for statement in tree.body:
        node: ast.expr | None = None
        if isinstance(statement, ast.If):
            node = statement.test
        elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr)):
            node = statement.value
        first = _first_evaluated(node)
        if isinstance(first, ast.Call) and not first.args and not first.keywords:
            name = names.resolve(first.func)
            if name is not None:
                yield name


def _first_evaluated(node: ast.expr | None) -> ast.expr | None:
    """The part of an expression that is evaluated whatever the others give."""
    while True:
        if isinstance(node, ast.BoolOp):
            node = node.values[0]
        elif isinstance(node, ast.UnaryOp):
            node = node.operand
        else:
            return node


def last_import(tree: ast.Module) -> int:
    """The line of the last import that is run with the module; 0 where there is none."""
    imports = (ast.Import, ast.ImportFrom)
    lines = [node.lineno for node in module_statements(tree.body) if isinstance(node, imports)]
    return max(lines, default=0)


def forgotten(tree: ast.Module, names: Names) -> Iterator[str]:
    """Qualified names of the functions whose ``cache_clear`` a file mentions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "cache_clear":
            name = names.resolve(node.value)
            if name is not None:
                yield name


def ends_graph(project: Project, need: Need) -> bool:
    """Whether the function that ``need`` names keeps its answer, and what it does ends a graph."""
    target, facts = _answering(project, need.owner)
    if facts is None:
        return False
    seen, front = {target}, [target]
    while front:
        here = project.functions[front.pop()]
        if any(_is_ending(project, here)):
            return True
        for call in here.calls:
            new = [name for name in project.targets(call) if name not in seen]
            seen.update(new)
            front += [name for name in new if not project.functions[name].ends_region]
    return False


def _is_ending(project: Project, facts: FunctionFacts) -> Iterator[bool]:
    for event in facts.events:
        named = event.kind == "call" and event.subject.startswith(_ENDING_CALLS)
        if event.kind in _ENDING_EVENTS or named:
            yield all(project.confirmed(other) for other in event.needs)


def asked_first(project: Project, need: Need) -> bool:
    """Whether importing the module ``need.name`` calls the function ``need.owner`` anyway, and
    may call it as soon as it has its name.
    """
    target, facts = _answering(project, need.owner)
    home = project.modules.get(target.rpartition(".")[0])
    if facts is None or home is None or home.last_import > facts.line:
        return False
    run = {name for module in (need.name, home.module) for name in _with_packages(module)}
    loaded = [project.modules[name] for name in run if name in project.modules]
    asked = any(project.symbol(name) == target for module in loaded for name in module.asked)
    cleared = (name for module in project.modules.values() for name in module.forgotten)
    return asked and all(project.symbol(name) != target for name in cleared)


def _answering(project: Project, name: str) -> tuple[str, FunctionFacts | None]:
    target = project.symbol(name) or ""
    facts = project.functions.get(target)
    return target, facts if facts is not None and facts.keeps_answer else None


def _with_packages(module: str) -> Iterator[str]:
    """A module and the packages around it, whose ``__init__`` is run first."""
    parts = module.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))
