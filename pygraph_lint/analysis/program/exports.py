"""What a file offers to others: its ``__all__``, and what other files of the project import."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from pygraph_lint.analysis.program.facts import ModuleFacts
from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.program.names import module_statements
from pygraph_lint.analysis.syntax.nodes import is_constant, walk

# Behind the end of a line: that is looked for faster than the beginning of one.
_ASSIGNED_THROUGH_A_DOT = re.compile(r"\n[ \t]*(?!self\b|cls\b)[A-Za-z_]\w*\.[\w.]+[ \t]*=(?!=)")


# What says whether distributions check their arguments, and the method that sets it, of each of
# their classes.
VALIDATES = "torch.distributions.Distribution._validate_args"
_SETS_IT = re.compile(r"torch\.distributions\.[\w.]+\.set_default_validate_args")


def patched(text: str, file: Module) -> tuple[str, ...]:
    """Qualified names of what a file assigns to through a name that is imported or defined at its
    top: ``module.function = other``, ``setattr(Class, "method", other)``. Whether distributions
    check their arguments is among them where the file may turn that off, also in a function.
    """
    found = set(_assigned_through_names(text, file))
    found.discard(VALIDATES)
    if "validate_args" in text and any(_turns_off(file, each) for each in file.nodes):
        found.add(VALIDATES)
    return tuple(sorted(found))


def _turns_off(file: Module, node: ast.AST) -> bool:
    """Whether distributions may not check their arguments after a statement or a call."""
    if isinstance(node, ast.Assign):
        return not is_constant(node.value, True) and any(
            _of_torch(file, target) == VALIDATES for target in node.targets
        )
    if not isinstance(node, ast.Call) or _SETS_IT.fullmatch(_of_torch(file, node.func)) is None:
        return False
    given = (*node.args, *(item.value for item in node.keywords))
    return not all(is_constant(each, True) for each in given)


def _of_torch(file: Module, node: ast.expr) -> str:
    """The qualified name of an attribute, without the file that defines distributions."""
    name = file.names.resolve(node) or ""
    return name.replace("torch.distributions.distribution.", "torch.distributions.")


def _assigned_through_names(text: str, file: Module) -> Iterable[str]:
    """What is assigned to through such a name."""
    if "setattr(" not in text and _ASSIGNED_THROUGH_A_DOT.search(f"\n{text}") is None:
        return ()
    found: set[str] = set()
    names = file.names
    for node in file.nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(names.resolve(node) or "")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            named = node.args[1] if len(node.args) == 3 and node.func.id == "setattr" else None
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                holder = names.resolve(node.args[0])
                found.add(f"{holder}.{named.value}" if holder else "")
    return found - {""}


def exported(tree: ast.Module) -> tuple[str, ...] | None:
    """The names of ``__all__``; None where the file has none that is written out once."""
    found: tuple[str, ...] | None = None
    for node in module_statements(tree.body):
        if not _names_all(node):
            continue
        value = node.value if isinstance(node, ast.Assign) and node in tree.body else None
        if found is not None or not isinstance(value, (ast.List, ast.Tuple)):
            return None
        items = [item.value for item in value.elts if isinstance(item, ast.Constant)]
        names = tuple(item for item in items if isinstance(item, str))
        if len(names) != len(value.elts):
            return None
        found = names
    return found


def _names_all(statement: ast.stmt) -> bool:
    """Whether a plain statement has to do with ``__all__``."""
    plain = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Delete)
    return isinstance(statement, plain) and any(
        isinstance(node, ast.Name) and node.id == "__all__" for node in walk(statement)
    )


def private_names(modules: Iterable[ModuleFacts]) -> dict[str, frozenset[str]]:
    """For each module with ``__all__``, the functions and classes that nothing else can mean: not
    in ``__all__``, and imported by no other file of the project.
    """
    modules = list(modules)
    imported = {target for module in modules for target in _imported(module)}
    found = {}
    for module in modules:
        if module.exported is None or module.module in imported:
            continue
        prefix = f"{module.module}."
        defined = {name.removeprefix(prefix) for name in (*module.functions, *module.classes)}
        found[module.module] = frozenset(
            name
            for name in defined
            if name.isidentifier() and name not in module.exported and prefix + name not in imported
        )
    return found


def _imported(module: ModuleFacts) -> Iterator[str]:
    """Qualified names that a file imports, at its top or in its functions. A star means what
    ``__all__`` of the other file says.
    """
    prefix = f"{module.module}."
    for name, target in module.bindings.items():
        if not name.startswith("*") and not target.startswith(prefix):
            yield target
    yield from module.inner_imports
