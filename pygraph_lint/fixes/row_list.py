"""Rows of a tensor that a loop copies to the host one by one are copied at once, before it.

for i in range(len(shapes)):        shapes_list = shapes.tolist()
    h, w = shapes[i].tolist()       for i in range(len(shapes)):
                                        h, w = shapes_list[i]

Unsafe: the loop may change the tensor under another name, and may have no turn.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.flow import binds
from pygraph_lint.fixes.names import loads, parents
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import written
from pygraph_lint.fixes.tensors import shown_in

CODES = ("PG203",)


def propose(proposal: Proposal) -> None:
    """Copy all rows before the loop."""
    proposal.message = "Copy the rows to the host at once, before the loop"
    call = proposal.path[-1]
    loop = next((it for it in reversed(proposal.path) if isinstance(it, ast.For)), None)
    read = call.func.value if isinstance(call, ast.Call) and _is_copy(call) else None  # type: ignore[attr-defined]
    function = proposal.function
    if loop is None or not isinstance(read, ast.Subscript) or function is None:
        raise Declined
    held, index = read.value, read.slice
    if not isinstance(held, ast.Name) or not isinstance(index, ast.Name):
        raise Declined
    if not _counts(proposal, loop, index.id):
        raise Declined
    if not shown_in(function, held.id):
        raise Declined(f"nothing shows that {held.id} is a tensor")
    above = parents(proposal.source.tree)
    proposal.need("looked-at", _is_read(above, call), "the list may be kept and changed")
    again = any(binds(part, name) for part in loop.body for name in (held.id, index.id))
    proposal.need("same", not again, f"{held.id} or {index.id} is another one later in the loop")
    changed = any(not _is_row(above, node) for part in loop.body for node in loads(part, held.id))
    proposal.need("only-rows", not changed, f"the loop may change {held.id}")
    proposal.safe_if(
        "unchanged",
        False,
        "the loop may change the tensor under another name, and the rows are copied where it has"
        " no turn, too",
    )
    proposal.remains = True
    name = proposal.names.free(f"{held.id}_list")
    source = proposal.source
    line = written(proposal, source.indent(loop), [f"{name} = {held.id}.tolist()"])
    start = source.line_start(loop.lineno)
    proposal.replace(start, start, line + source.newline)
    proposal.replace_node(call, f"{name}[{index.id}]")


def _is_copy(call: ast.Call) -> bool:
    """``x.tolist()``."""
    plain = isinstance(call.func, ast.Attribute) and call.func.attr == "tolist"
    return plain and not call.args and not call.keywords


def _counts(proposal: Proposal, loop: ast.For, name: str) -> bool:
    """``for name in range(...)``."""
    call = loop.iter
    if not isinstance(loop.target, ast.Name) or loop.target.id != name:
        return False
    ranged = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    return ranged and call.func.id == "range" and not proposal.names.taken("range")  # type: ignore[attr-defined]


def _is_read(above: dict[ast.AST, ast.AST], call: ast.AST) -> bool:
    """Whether a list is only taken apart, or added to another one."""
    parent = above[call]
    if isinstance(parent, ast.Assign):
        return len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Tuple)
    function = parent.func if isinstance(parent, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr == "extend"


def _is_row(above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    """Whether a tensor is indexed there, and not written to."""
    parent = above[node]
    return isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load)
