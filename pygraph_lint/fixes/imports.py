"""Names a rewrite needs: found under the file's own spelling, or imported once."""

from __future__ import annotations

import ast

from pygraph_lint.fixes.proposal import Declined, Proposal


def use_torch(proposal: Proposal) -> str:
    """How ``torch`` is written at the finding; adds ``import torch`` where the file has none.

    Raises Declined where the name means something else.
    """
    spelled = proposal.names.spelling("torch")
    if spelled is not None:
        return spelled
    if proposal.names.taken("torch"):
        raise Declined("the name torch means something else here")
    _add_import(proposal, "torch")
    return "torch"


def _add_import(proposal: Proposal, module: str) -> None:
    """Add ``import module`` in front of the file's first import from it, else behind its last plain
    import.
    """
    source = proposal.source
    line = f"import {module}{source.newline}"
    imports = [
        node
        for node in source.tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom)) and not _is_future(node)
    ]
    for node in imports:
        if any(name.split(".")[0] == module for name in _modules(node)):
            start = source.line_start(node.lineno)
            proposal.replace(start, start, line)
            return
    body = source.tree.body
    before: list[ast.stmt] = [
        node for node in body if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    if not before and body and ast.get_docstring(source.tree) is not None:
        before = body[:1]
    if not before:
        start = source.line_start(body[0].lineno) if body else 0
        proposal.replace(start, start, line + source.newline)
        return
    end_line = before[-1].end_lineno
    assert end_line is not None
    start = source.line_start(end_line) + len(source.line(end_line))
    gap = "" if imports else source.newline
    proposal.replace(start, start, f"{gap}{source.newline}import {module}")


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if not node.level else []
    return [alias.name for alias in node.names]


def _is_future(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
