"""A new tensor asks for gradients outside compiled code only, where it is made.

torch.zeros_like(x).requires_grad_() -> torch.zeros_like(x, requires_grad=not
torch.compiler.is_compiling())

Always unsafe: compiled code does not record gradients for the new tensor.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.pieces import with_keywords
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG508",)
_FACTORIES = frozenset(
    f"torch.{name}{like}"
    for name in ("zeros", "ones", "empty", "full", "rand", "randn")
    for like in ("", "_like")
)


def propose(proposal: Proposal) -> None:
    """Ask for gradients through the factory's keyword."""
    call = proposal.around(ast.Call)
    method = call.func if call is not None else None
    if call is None or not isinstance(method, ast.Attribute) or method.attr != "requires_grad_":
        raise Declined("the tensor is used in the same expression")
    made = method.value
    if not isinstance(made, ast.Call) or proposal.names.callee(made) not in _FACTORIES:
        raise Declined("the tensor is used in the same expression")
    proposal.message = "Ask for gradients of the new tensor only when not compiling"
    asked = not call.args and not call.keywords
    proposal.need("asked", asked, "whether gradients are asked for is computed")
    starred = any(item.arg is None for item in made.keywords)
    proposal.need("starred", not starred, "the keyword may be among those unpacked into the call")
    proposal.safe_if("compiled", False, "compiled code no longer records gradients for this tensor")
    question = f"not {use_torch(proposal)}.compiler.is_compiling()"
    text = with_keywords(proposal.source.segment(made), {"requires_grad": question})
    proposal.replace_node(call, text)
