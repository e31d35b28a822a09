"""Flags of a backend are only set outside compiled code.

with torch.backends.cudnn.flags(enabled=False): -> with contextlib.nullcontext() if
torch.compiler.is_compiling() else torch.backends.cudnn.flags(enabled=False):

Always unsafe: compiled code runs with the flags it finds.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_module, use_torch
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG519",)


def propose(proposal: Proposal) -> None:
    """Enter nothing while compiling."""
    call = proposal.around(ast.Call)
    name = proposal.names.callee(call) if call is not None else None
    if call is None or name is None or not name.startswith("torch.backends."):
        raise Declined("only a backend's flags can be left as they are")
    proposal.message = "Set the backend's flags only when not compiling"
    unnamed = all(
        item.optional_vars is None
        for item in getattr(proposal.statement, "items", [])
        if item.context_expr is call
    )
    proposal.need("unnamed", unnamed, "what the context manager gives is used")
    proposal.safe_if("flags", False, "compiled code runs with the flags it finds")
    empty = f"{use_module(proposal, 'contextlib')}.nullcontext()"
    start, _ = proposal.source.span(call)
    proposal.replace(
        start, start, f"{empty} if {use_torch(proposal)}.compiler.is_compiling() else "
    )
