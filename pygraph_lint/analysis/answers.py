"""Functions without parameters that are cached, and who calls them at import: what one file says.
``memoised.py`` joins it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from pygraph_lint.analysis.names import FunctionNode, Names, imports_of, module_statements
from pygraph_lint.analysis.nodes import walk

_CACHES = ("functools.lru_cache", "functools.cache")


def keeps_answer(node: FunctionNode, names: Names) -> bool:
    """Whether a function takes no arguments and, cached, gives the same object each time."""
    if len(node.decorator_list) != 1:
        return False  # another decorator may run code, or give something else, in each call
    taken = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    if taken or node.args.vararg or node.args.kwarg or isinstance(node, ast.AsyncFunctionDef):
        return False
    decorator = node.decorator_list[0]
    inner = decorator.func if isinstance(decorator, ast.Call) else decorator
    given = (
        [*decorator.args, *(item.value for item in decorator.keywords)]
        if isinstance(decorator, ast.Call)
        else []
    )
    cached = names.resolve(inner) in _CACHES
    return cached and all(isinstance(item, ast.Constant) and item.value != 0 for item in given)


def asked_on_import(body: list[ast.stmt], names: Names) -> Iterator[str]:
    """Qualified names of what statements of a module always call, without arguments."""
    for statement in body:
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


def head(body: list[ast.stmt]) -> list[ast.stmt]:
    """The block of imports that a module begins with, those under a condition included."""
    count = 0
    for statement in body:
        docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not docstring and not only_imports([statement]):
            break
        count += 1
    return body[:count]


def only_imports(body: list[ast.stmt]) -> bool:
    """Whether statements import and do nothing else, conditions included."""
    return all(
        isinstance(node, (ast.Import, ast.ImportFrom))
        or (isinstance(node, ast.If) and only_imports([*node.body, *node.orelse]))
        for node in body
    )


def loaded_by(body: list[ast.stmt], module: str, is_package: bool) -> Iterator[str]:
    """Names whose modules are run by the imports among these statements."""
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (name for _, name in imports_of(node, module, is_package))


def last_import(tree: ast.Module) -> int:
    """The line of the last import that is run with the module; 0 where there is none."""
    imports = (ast.Import, ast.ImportFrom)
    lines = [node.lineno for node in module_statements(tree.body) if isinstance(node, imports)]
    return max(lines, default=0)


def forgotten(tree: ast.Module, names: Names) -> Iterator[str]:
    """Qualified names of the functions whose ``cache_clear`` a file mentions."""
    for node in walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "cache_clear":
            name = names.resolve(node.value)
            if name is not None:
                yield name
