"""What names mean in one file, and how a function uses its own: read from the syntax tree alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from pygraph_lint.fixes.source import FUNCTIONS, Function, Source


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(parts)])


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below a node, as ``ast.iter_child_nodes`` gives them, in half the time."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            found.append(value)
        elif isinstance(value, list):
            found += [item for item in value if isinstance(item, ast.AST)]
    return found


@lru_cache(maxsize=512)
def own_nodes(function: ast.AST) -> tuple[ast.AST, ...]:
    """The nodes of a function's body, without those of functions and classes defined in it."""
    found: list[ast.AST] = []
    stack = children(function)[::-1]
    while stack:
        node = stack.pop()
        found.append(node)
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            stack += reversed(children(node))
    return tuple(found)


@lru_cache(maxsize=64)
def all_nodes(root: ast.AST) -> tuple[ast.AST, ...]:
    """``root`` and all nodes below it, kept because many rewrites ask for the same ones."""
    found = [root]
    for node in found:  # grows while it is walked
        found += children(node)
    return tuple(found)


def _import_bindings(statement: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                top = alias.name.partition(".")[0]
                yield top, top
    elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
        for alias in statement.names:
            yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def imported(source: Source) -> dict[str, str]:
    """Module-level names and what they stand for; empty where an import is not what binds them.

    A name bound twice differently stands for nothing.
    """
    bound: dict[str, str] = {}
    lost: set[str] = set()
    for node in own_nodes(source.tree):
        for name, target in _import_bindings(node):
            if bound.get(name, target) != target:
                lost.add(name)
            bound[name] = target
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            lost.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            lost.add(node.name)
        elif isinstance(node, ast.ExceptHandler):
            lost.add(node.name or "")
    return bound | dict.fromkeys(lost, "")


def locals_of(function: Function) -> set[str]:
    """Names a function binds itself: parameters, assignments, loops, imports, handlers."""
    names = {argument.arg for argument in parameters(function)}
    for node in own_nodes(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        if isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        for name, _ in _import_bindings(node):
            names.add(name)
    return names


def parameters(function: Function) -> list[ast.arg]:
    """Every parameter of a function, in order."""
    arguments = function.args
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


class FileNames:
    """What a file's imports bind, and what each of its functions binds, looked at once."""

    def __init__(self, source: Source) -> None:
        self.imported = imported(source)
        self._scopes: dict[ast.AST, tuple[set[str], dict[str, str]]] = {}

    def scope(self, function: Function) -> tuple[set[str], dict[str, str]]:
        """The names a function binds, and its own imports among them."""
        if function not in self._scopes:
            bound = dict(pair for inner in own_nodes(function) for pair in _import_bindings(inner))
            self._scopes[function] = (locals_of(function), bound)
        return self._scopes[function]


class Names:
    """Resolves names at one place of a file; ``path`` leads there."""

    def __init__(self, names: FileNames, path: list[ast.AST]) -> None:
        self._imported = dict(names.imported)
        self._hidden: set[str] = set()
        for node in path:
            if isinstance(node, FUNCTIONS):
                bound, own = names.scope(node)
                self._hidden |= bound
                self._imported.update(own)
                self._hidden -= own.keys()

    def qualified(self, node: ast.expr) -> str | None:
        """``torch.nn.functional.relu`` for ``F.relu``; None for what no import binds."""
        written = dotted(node)
        if written is None:
            return None
        first, _, rest = written.partition(".")
        target = self._imported.get(first)
        if first in self._hidden or not target:
            return None
        return f"{target}.{rest}" if rest else target

    def callee(self, node: ast.AST) -> str | None:
        """The qualified name a call calls."""
        return self.qualified(node.func) if isinstance(node, ast.Call) else None

    def spelling(self, module: str) -> str | None:
        """The name under which ``module`` can be used here, or None."""
        for name, target in self._imported.items():
            if target == module and name not in self._hidden:
                return name
        return None

    def taken(self, name: str) -> bool:
        """Whether a name already means something here."""
        return name in self._hidden or name in self._imported

    def free(self, name: str) -> str:
        """The name, or with a number behind it, as something that means nothing here yet."""
        names = (name, *(f"{name}_{number}" for number in range(2, 99)))
        return next(each for each in names if not self.taken(each))


def stores(function: ast.AST, name: str) -> list[ast.AST]:
    """Nodes of a function that bind a name (parameters included), in source order."""
    found: list[ast.AST] = []
    if isinstance(function, FUNCTIONS):
        found += [argument for argument in parameters(function) if argument.arg == name]
    found += [
        node
        for node in own_nodes(function)
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    return found


def loads(function: ast.AST, name: str) -> list[ast.Name]:
    """Nodes of a function (and of functions inside it) that read a name."""
    return [
        node
        for node in all_nodes(function)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]


def shared(function: ast.AST, name: str) -> bool:
    """Whether code outside a function, or a function inside it, may bind its name: one of them
    declares it global or nonlocal.
    """
    return any(
        isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names
        for node in all_nodes(function)
    )


@lru_cache(maxsize=4)
def parents(root: ast.AST) -> dict[ast.AST, ast.AST]:
    """Each node's parent, below ``root``."""
    return {child: node for node in all_nodes(root) for child in children(node)}


def pure(node: ast.expr) -> bool:
    """Whether evaluating an expression early, late or not at all makes no difference: names,
    attributes, constants.
    """
    if isinstance(node, (ast.Name, ast.Constant)):
        return True
    if isinstance(node, ast.Attribute):
        return pure(node.value)
    if isinstance(node, ast.UnaryOp):
        return pure(node.operand)
    return False


def assigned_values(function: ast.AST, name: str) -> list[ast.expr] | None:
    """The right-hand sides of a local name's bindings; None if one of them is not a plain
    assignment, or if other functions may bind the name.
    """
    if shared(function, name):
        return None
    bindings = stores(function, name)
    values = [
        node.value
        for node in own_nodes(function)
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
        and node.value is not None
        and any(target in bindings for target in _targets(node))
    ]
    return values if bindings and len(values) == len(bindings) else None


def _targets(node: ast.Assign | ast.AnnAssign | ast.NamedExpr) -> list[ast.expr]:
    return node.targets if isinstance(node, ast.Assign) else [node.target]
