"""Names to qualified names, by binding: what a name in this module really refers to."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from pygraph_lint.analysis.control_flow.statement_graph import parameters
from pygraph_lint.analysis.domain.ops import COMPILERS
from pygraph_lint.analysis.syntax.nodes import children, root_and_path, statements

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


_LONG = 4  # letters of a name that says something

_WITH_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def absolute(module: str, is_package: bool, level: int, target: str | None) -> str:
    """The dotted module that ``from <level dots><target>`` names inside ``module``."""
    if level == 0:
        return target or ""
    parts = module.split(".")
    if not is_package:
        parts = parts[:-1]
    if level > 1:
        parts = parts[: len(parts) - (level - 1)]
    return ".".join([*parts, target] if target else parts)


def imports_of(
    node: ast.Import | ast.ImportFrom, module: str, is_package: bool
) -> Iterator[tuple[str, str]]:
    """Pairs of bound name and qualified name; a star import gives ``("*", module)``."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname:
                yield alias.asname, alias.name
            else:
                head = alias.name.partition(".")[0]
                yield head, head
        return
    source = absolute(module, is_package, node.level, node.module)
    for alias in node.names:
        if alias.name == "*":
            yield "*", source
        else:
            yield alias.asname or alias.name, f"{source}.{alias.name}"


def import_whole_names(tree: ast.Module, beside: Mapping[str, str]) -> None:
    """Have imports name what they find by its whole name: ``beside`` has that of first names."""
    for node in statements(tree.body):
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            head, dot, rest = node.module.partition(".")
            node.module = f"{beside.get(head, head)}{dot}{rest}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                head, dot, rest = alias.name.partition(".")
                if head in beside:
                    alias.name = f"{beside[head]}{dot}{rest}" if alias.asname else beside[head]
                    alias.asname = alias.asname or head


def module_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run at import, through if / try / with blocks at the top level."""
    stack = list(reversed(body))
    while stack:
        statement = stack.pop()
        yield statement
        if statement.__class__ not in _WITH_BLOCKS:
            continue
        inner: list[ast.stmt] = []
        if isinstance(statement, (ast.If, ast.For, ast.While)):
            inner = [*statement.body, *statement.orelse]
        elif isinstance(statement, ast.With):
            inner = statement.body
        elif isinstance(statement, ast.Try):
            handled = [inside for handler in statement.handlers for inside in handler.body]
            inner = [*statement.body, *handled, *statement.orelse, *statement.finalbody]
        stack += reversed(inner)


class Names:
    """Bindings of one module, or of one function inside it.

    ``resolve`` follows imports, module-level aliases (``F = torch.nn.functional``) and
    definitions; a name that is bound to a value inside the scope resolves to None, whatever it is
    called.
    """

    def __init__(self, module: str, is_package: bool, bindings: dict[str, str | None]) -> None:
        self.module = module
        self.is_package = is_package
        self.bindings = bindings
        self.aliases: dict[str, ast.expr] = {}  # types that are written out: Optional[Tensor]
        self.star = ""  # the module that other names come from: by `from module import *`

    @classmethod
    def of_module(cls, tree: ast.Module, module: str, is_package: bool = False) -> Names:
        """The bindings at module level. An import wins over a fallback assignment of the same
        name.
        """
        names = cls(module, is_package, {})
        bind = names.bindings
        imported: set[str] = set()
        for node in module_statements(tree.body):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                for name, target in imports_of(node, module, is_package):
                    if name == "*":
                        bind["*" + target] = target
                    elif name not in imported or bind.get(name) is None:
                        bind[name] = target
                        imported.add(name)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bind[node.name] = f"{module}.{node.name}"
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                assigned = node.targets[0]
                if isinstance(assigned, ast.Name) and assigned.id not in imported:
                    alias = names._alias(node.value)
                    bind[assigned.id] = alias or f"{module}.{assigned.id}"
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                bind.setdefault(node.target.id, f"{module}.{node.target.id}")
            names._note_alias(node)
        stars = [target for name, target in bind.items() if name[0] == "*" and target]
        names.star = module if len(stars) > 1 else "".join(stars)
        return names

    def _alias(self, value: ast.expr) -> str | None:
        """What an assigned name or dotted expression stands for, compiled or as it is."""
        value = self.compiled(value)
        return self.resolve(value) if isinstance(value, (ast.Name, ast.Attribute)) else None

    def compiled(self, node: ast.expr) -> ast.expr:
        """What is given to torch.compile; any other expression as it is."""
        compiled = isinstance(node, ast.Call) and node.args and self.resolve(node.func) in COMPILERS
        return node.args[0] if isinstance(node, ast.Call) and compiled else node

    def _note_alias(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target: ast.expr = node.targets[0]
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            target = node.target
        else:
            return
        generic = isinstance(node.value, ast.Subscript) or (
            isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
        )
        if isinstance(node.value, ast.Call):
            maker = self.resolve(node.value.func) or ""
            generic = maker.rpartition(".")[2] in ("TypeVar", "NewType")
        if isinstance(target, ast.Name) and node.value is not None and generic:
            self.aliases[target.id] = node.value

    def scope(self, function: FunctionNode | ast.Lambda) -> Names:
        """The names as ``function`` sees them: its parameters and locals hide the module's."""
        bindings = {**self.bindings, **{each.arg: None for each in parameters(function)}}
        child = Names(self.module, self.is_package, bindings)
        if isinstance(function, ast.Lambda):
            return child
        for node in own_nodes(function):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                bindings.update(imports_of(node, self.module, self.is_package))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bindings[node.id] = None
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                bindings[node.name] = None
        return child

    def resolve(self, node: ast.expr) -> str | None:
        """The qualified name of ``a`` or ``a.b.c``, or None where the root is no known binding."""
        name, path = root_and_path(node)
        if not isinstance(name, ast.Name):
            return None
        root = self.bindings.get(name.id)
        if root is None and self.star and name.id not in self.bindings:
            root = f"{self.star}.{name.id}"
        return None if root is None else f"{root}{path}"


def own_nodes(holder: ast.AST) -> Iterator[ast.AST]:
    """Every node of a block in source order, nested functions and classes named but not entered."""
    stack: list[ast.AST] = list(reversed(getattr(holder, "body", [])))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(children(node))


def name_of_all(name: str) -> str | None:
    """What an object calls the tensor of which ``name`` is one element: ``timesteps`` beside
    ``timestep``; None where a name says too little.
    """
    return f"{name}s" if len(name) >= _LONG else None
