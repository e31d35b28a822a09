"""autocast around a capture does not keep the casts of the weights.

torch.autocast("cuda") -> torch.autocast("cuda", cache_enabled=False)

Unsafe: each use of a weight is cast for itself, so gradients of a weight that is used twice are
added in full precision.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.pieces import with_keywords
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG605",)
# Where the switch stands among the positional arguments.
_POSITIONS = {"torch.autocast": 3, "torch.amp.autocast": 3, "torch.cuda.amp.autocast": 2}


def propose(proposal: Proposal) -> None:
    """Give the keyword."""
    call = proposal.around(ast.Call)
    if call is None:
        raise Declined("autocast is not made here")
    proposal.message = "Leave autocast's cache of casts off around the capture"
    position = _POSITIONS.get(proposal.names.callee(call) or "")
    if position is None:
        raise Declined("not a call of torch.autocast")
    proposal.need("positional", len(call.args) <= position, "the switch is given by position")
    starred = any(item.arg is None for item in call.keywords)
    proposal.need("starred", not starred, "the keyword may be among those unpacked into the call")
    proposal.safe_if(
        "each-use", False, "each use of a weight is cast for itself, and gradients add up in full"
    )
    text = with_keywords(proposal.source.segment(call), {"cache_enabled": "False"})
    proposal.replace_node(call, text)
