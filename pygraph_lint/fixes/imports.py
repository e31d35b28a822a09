"""Names a rewrite needs: found under the file's own spelling, or imported once."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads
from pygraph_lint.fixes.proposal import Declined, Proposal


def use_torch(proposal: Proposal) -> str:
    """How ``torch`` is written at the finding; adds ``import torch`` where only parts are
    imported.

    Raises Declined where the name means something else, or where the file can be used without
    torch: it does not import it, or only under a condition.
    """
    spelled = proposal.names.spelling("torch")
    if spelled is not None:
        if not _always_imported(proposal, spelled) and not _used(proposal, spelled):
            raise Declined("torch is imported under a condition, and not used here")
        return spelled
    if proposal.names.taken("torch"):
        raise Declined("the name torch means something else here")
    _add_import(proposal)
    return "torch"


def use_module(proposal: Proposal, module: str) -> str:
    """How a module of the standard library is written at the finding; imported where it is not.

    Raises Declined where its name means something else.
    """
    spelled = proposal.names.spelling(module)
    if spelled is not None:
        return spelled
    if proposal.names.taken(module):
        raise Declined(f"the name {module} means something else here")
    source = proposal.source
    for node in source.tree.body:
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not future:
            start = source.line_start(node.lineno)
            proposal.replace(start, start, f"import {module}{source.newline}")
            return module
    raise Declined("the file imports nothing")


def take_import(proposal: Proposal, name: str) -> None:
    """Take a name that nothing uses any more out of its ``from`` import, if that is on one line."""
    source = proposal.source
    for node in source.tree.body:
        bound = [alias.asname or alias.name for alias in getattr(node, "names", [])]
        if not isinstance(node, ast.ImportFrom) or name not in bound or not source.alone(node):
            continue
        if node.lineno != node.end_lineno:
            return
        if len(bound) == 1:
            start = source.line_start(node.lineno)
            proposal.replace(start, source.line_start(node.lineno + 1), "")
            return
        place = bound.index(name)
        first, last = source.span(node.names[place])
        if place + 1 < len(bound):
            last = source.span(node.names[place + 1])[0]
        else:
            first = source.span(node.names[place - 1])[1]
        proposal.replace(first, last, "")
        return


def _always_imported(proposal: Proposal, name: str) -> bool:
    """Whether the module imports a name without a condition."""
    return any(
        isinstance(node, ast.Import)
        and any((alias.asname or alias.name.split(".")[0]) == name for alias in node.names)
        for node in proposal.source.tree.body
    )


def _used(proposal: Proposal, name: str) -> bool:
    """Whether the code around the finding uses a name already."""
    scope = proposal.around(ast.ClassDef) or proposal.function
    return scope is not None and bool(loads(scope, name))


def _add_import(proposal: Proposal) -> None:
    """Add ``import torch`` in front of the file's first import from torch."""
    source = proposal.source
    for node in source.tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)) and "torch" in _tops(node):
            start = source.line_start(node.lineno)
            proposal.replace(start, start, f"import torch{source.newline}")
            return
    raise Declined("the file does not import torch")


def _tops(node: ast.Import | ast.ImportFrom) -> list[str]:
    """The top-level packages an import imports from."""
    if isinstance(node, ast.ImportFrom):
        return [(node.module or "").split(".")[0]] if not node.level else []
    return [alias.name.split(".")[0] for alias in node.names]
