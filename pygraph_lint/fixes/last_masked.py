"""The last of each row's masked positions is looked up by its number.

x[mask, :].view(x.size(0), -1, x.size(-1))[:, -1, :]

becomes last = mask.size(1) - 1 - mask.flip(1).int().argmax(1) and
x[torch.arange(x.size(0), device=x.device), last]

Unsafe: rows without a masked position, or with more than others, no longer raise.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted, own_nodes, parents
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line, written

CODES = ("PG402",)


def propose(proposal: Proposal) -> None:
    """Find the last position, and look it up."""
    read, statement = proposal.around(ast.Subscript), proposal.statement
    function = proposal.function
    if read is None or function is None or isinstance(function, ast.Lambda):
        raise Declined
    above = parents(statement)
    shaped = above.get(above.get(read, read), read)
    picked = above.get(shaped)
    if not isinstance(shaped, ast.Call) or not isinstance(picked, ast.Subscript):
        raise Declined
    method = shaped.func
    if not isinstance(method, ast.Attribute) or method.value is not read:
        raise Declined
    if method.attr not in ("view", "reshape") or not _last_of_each(picked):
        raise Declined
    proposal.message = "Look the last masked position of each row up"
    name, mask = dotted(read.value), _mask(read.slice)
    if name is None or mask is None:
        raise Declined("what is read, or the mask, has no name")
    rows = _rows(function, name, shaped)
    if rows is None:
        raise Declined("nothing shows that each row gets back its own positions")
    proposal.need(
        "simple", isinstance(statement, (ast.Assign, ast.Return)), "the statement does more"
    )
    proposal.need("alone", proposal.source.alone(statement), "it is written on one line")
    proposal.safe_if(
        "counts",
        False,
        "rows without a masked position, or with more of them than others, no longer raise, nor"
        " does a mask that has not two dimensions",
    )
    torch = use_torch(proposal)
    last = proposal.names.free("last")
    line = f"{last} = {mask}.size(1) - 1 - {mask}.flip(1).int().argmax(1)"
    source = proposal.source
    start = source.line_start(statement.lineno)
    proposal.replace(
        start, start, written(proposal, source.indent(statement), [line]) + source.newline
    )
    index = f"{torch}.arange({rows}, device={last}.device), {last}"
    proposal.replace_node(picked, f"{name}[{one_line(index)}]")


def _last_of_each(node: ast.Subscript) -> bool:
    """``[:, -1]`` or ``[:, -1, :]``."""
    return ast.unparse(node.slice).strip("()") in (":, -1", ":, -1, :")


def _mask(index: ast.expr) -> str | None:
    """``mask`` of ``[mask]`` or ``[mask, :]``."""
    if isinstance(index, ast.Tuple):
        whole = len(index.elts) == 2 and ast.unparse(index.elts[1]) == ":"
        return dotted(index.elts[0]) if whole else None
    return dotted(index)


def _rows(function: ast.AST, name: str, shaped: ast.Call) -> str | None:
    """How ``x.view(rows, -1, width)`` writes the rows, if these are the sizes of what is read."""
    sizes = [ast.unparse(item) for item in shaped.args]
    if len(sizes) != 3 or shaped.keywords or sizes[1] != "-1":
        return None
    first = {f"{name}.size(0)", f"{name}.shape[0]"}
    last = {f"{name}.size(-1)", f"{name}.shape[-1]", f"{name}.size(2)", f"{name}.shape[2]"}
    for node in own_nodes(function):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(target, ast.Tuple) and len(target.elts) == 3:
            assert isinstance(node, ast.Assign)
            if ast.unparse(node.value) in (f"{name}.shape", f"{name}.size()"):
                first.add(ast.unparse(target.elts[0]))
                last.add(ast.unparse(target.elts[2]))
    return sizes[0] if sizes[0] in first and sizes[2] in last else None
