"""An optimizer that is stepped in a capture is made with ``capturable=True``.

torch.optim.Adam(parameters) -> torch.optim.Adam(parameters, capturable=True)

Unsafe: the step is then counted on the device, which rounds differently, and other steps of the
same optimizer are computed that way too.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import all_nodes, dotted
from pygraph_lint.fixes.pieces import with_keywords
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG603",)


def propose(proposal: Proposal) -> None:
    """Give the keyword where the optimizer is made."""
    call = proposal.around(ast.Call)
    proposal.message = "Make the optimizer with capturable=True"
    name = dotted(call.func.value) if call and isinstance(call.func, ast.Attribute) else None
    if name is None:
        raise Declined("the optimizer that is stepped has no name")
    made = [
        node.value
        for node in all_nodes(proposal.source.tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and any(dotted(target) == name for target in node.targets)
    ]
    proposal.need("one", len(made) == 1, "it is not certain where the optimizer is made")
    make = made[0]
    optimizer = (proposal.names.qualified(make.func) or "").startswith("torch.optim.")
    proposal.need("optimizer", optimizer, "it is not torch's own class that makes the optimizer")
    starred = any(item.arg is None for item in make.keywords)
    proposal.need("starred", not starred, "the keyword may be among those unpacked into the call")
    proposal.safe_if(
        "counted", False, "steps are counted on the device, and so are bias corrections computed"
    )
    text = with_keywords(proposal.source.segment(make), {"capturable": "True"})
    proposal.replace_node(make, text)
