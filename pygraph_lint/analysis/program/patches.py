"""What a file assigns to in others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from pygraph_lint.analysis.program.module import Module
from pygraph_lint.analysis.syntax.nodes import is_constant

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
