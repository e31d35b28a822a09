"""Values copied from one tensor to another through one mask are selected.

a[mask] = b[mask] -> a.copy_(torch.where(mask, b, a))

The mask has to have as many dimensions as the tensor: indexing fits it to the leading ones,
``where`` to the trailing ones. Unsafe: where dtypes or devices do not fit, indexing raises and
``where`` converts.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.ranks import compared, made_like, rank
from pygraph_lint.fixes.statements import one_line
from pygraph_lint.fixes.tensors import pure_expression

CODES = ("PG406", "PG402")


def propose(proposal: Proposal) -> None:
    """Select instead of reading and writing by index."""
    statement = proposal.statement
    proposal.message = "Select through the mask instead of copying what it counts out"
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        raise Declined("not a write through a mask")
    target, value = statement.targets[0], statement.value
    if not isinstance(target, ast.Subscript) or not isinstance(value, ast.Subscript):
        raise Declined("what is written is not read through a mask")
    name, other = dotted(target.value), dotted(value.value)
    if name is None or other is None:
        raise Declined("what is written to or read is no name")
    same = ast.dump(target.slice) == ast.dump(value.slice)
    proposal.need("same-mask", same, "reading and writing go through different masks")
    harmless = pure_expression(proposal, target.slice)
    proposal.need("pure-mask", harmless, "the mask calls what is not known")
    fits = _fits(proposal, statement, target.slice, name, other)
    proposal.need("fits", fits, "nothing shows that the mask has all of the tensor's dimensions")
    proposal.safe_if(
        "refused", False, "other dtypes or devices are converted where indexing refused them"
    )
    mask = one_line(proposal.source.segment(target.slice))
    proposal.replace_node(
        statement, f"{name}.copy_({use_torch(proposal)}.where({mask}, {other}, {name}))"
    )


def _fits(proposal: Proposal, statement: ast.stmt, mask: ast.expr, name: str, other: str) -> bool:
    """Whether the mask has as many dimensions as what is written to."""
    shaped = compared(proposal, statement, mask)
    if shaped is not None and shaped == made_like(proposal, statement, name) == other:
        return True
    if shaped is not None and shaped == name:
        return True
    dimensions = rank(proposal, statement, mask)
    written = rank(proposal, statement, ast.Name(name, ast.Load()))
    return dimensions is not None and dimensions == written
