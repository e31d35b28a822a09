"""What is kept of a graph's outputs is a copy.

results.append(static_output) -> results.append(static_output.clone())

Unsafe: what was kept is no longer the graph's memory, so writing to it no longer reaches the graph.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.tensors import used_as_tensor

CODES = ("PG601",)


def propose(proposal: Proposal) -> None:
    """Clone what is kept."""
    node = proposal.path[-1]
    proposal.message = "Keep a copy: the next replay overwrites this memory"
    if not isinstance(node, (ast.Name, ast.Attribute)) or dotted(node) is None:
        raise Declined("what is kept has no name")
    tensor = used_as_tensor(proposal, node)
    proposal.need("tensor", tensor, "nothing shows that what is kept is a single tensor")
    proposal.safe_if("copy", False, "what is kept is a copy, no longer the graph's own memory")
    proposal.replace_node(node, f"{proposal.source.segment(node)}.clone()")
