"""A sum or mean over masked positions is taken over all of them, the others being zero.

x[mask].sum() -> torch.where(mask, x, 0).sum()
x[mask].mean() -> (torch.where(mask, x, 0).sum(dtype=torch.float64) / mask.sum()).to(x.dtype)

The mean adds in double precision, since a sum of half-precision numbers may overflow. The mask has
to compare the tensor itself. Unsafe: floating-point numbers are added in another
order, and integers keep their mean, which indexing refused.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.ranks import compared, made_like, rank
from pygraph_lint.fixes.statements import one_line
from pygraph_lint.fixes.tensors import pure_expression

CODES = ("PG402",)


def propose(proposal: Proposal) -> None:
    """Reduce everything instead of what the mask counts out."""
    read = proposal.around(ast.Subscript)
    call = proposal.around(ast.Call)
    method = call.func if call is not None else None
    if read is None or call is None or not isinstance(method, ast.Attribute):
        raise Declined("what the mask selects is not reduced at once")
    if method.value is not read or method.attr not in ("sum", "mean"):
        raise Declined("what the mask selects is not reduced at once")
    proposal.message = "Reduce over all positions, those outside the mask being zero"
    name = dotted(read.value)
    if name is None:
        raise Declined("what the mask selects from has no name")
    whole = not call.args and not call.keywords
    proposal.need("whole", whole, "not everything that the mask selects is reduced to one number")
    harmless = pure_expression(proposal, read.slice)
    proposal.need("pure-mask", harmless, "the mask calls what is not known")
    statement = proposal.statement
    shaped = compared(proposal, statement, read.slice)
    alike = {name, made_like(proposal, statement, name)}
    sizes = [rank(proposal, statement, item) for item in (read.slice, read.value)]
    fits = shaped in alike - {None} or (None not in sizes and sizes[0] == sizes[1])
    proposal.need("fits", fits, "nothing shows that the mask has all of the tensor's dimensions")
    proposal.safe_if(
        "order", False, "numbers are added in another order, which may round otherwise"
    )
    mask = one_line(proposal.source.segment(read.slice))
    torch = use_torch(proposal)
    text = f"{torch}.where({mask}, {name}, 0)"
    if method.attr == "mean":
        count = mask if isinstance(read.slice, ast.Name) else f"({mask})"
        total = f"{text}.sum(dtype={torch}.float64)"
        proposal.replace_node(call, f"({total} / {count}.sum()).to({name}.dtype)")
    else:
        proposal.replace_node(call, f"{text}.sum()")
