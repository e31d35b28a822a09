"""A branch on a number that was read from a tensor becomes a selection by ``torch.where``.

if x.max().item() > 100: x = x / 10 -> x = torch.where(x.max() > 100, x / 10, x)

Unsafe: both arms are computed, and the comparison is made in the tensor's dtype: 0.1 in float32 is
larger than the number 0.1, and not larger than that number in float32.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import one_line
from pygraph_lint.fixes.tensor_branch import BOTH_ARMS, assigns, is_elif, returns, within
from pygraph_lint.fixes.tensor_step import compared_item
from pygraph_lint.fixes.tensors import pure_expression

CODES = ("PG201",)


def propose(proposal: Proposal) -> None:
    """Compare the tensor, and select."""
    node = proposal.around(ast.If)
    if node is None or not within(proposal, node.test) or is_elif(proposal, node):
        raise Declined
    found = compared_item(node.test)
    if found is None:
        raise Declined
    tensor, read = found
    proposal.message = "Select with torch.where instead of branching on the tensor's value"
    each = all(proposal.source.alone(item) for item in [*node.body, *node.orelse])
    proposal.need("alone", each, "the branch is written on one line")
    proposal.need(
        "pure", pure_expression(proposal, tensor), "the condition calls what is not known"
    )
    source = proposal.source
    (start, end), (low, high) = source.span(node.test), source.span(read)
    text = source.text[start:low] + source.segment(tensor) + source.text[high:end]
    compared = "the tensor is compared in its own dtype, not as a Python number"
    proposal.safe_if("selected", False, f"{BOTH_ARMS}; {compared}")
    if isinstance(node.body[-1], ast.Return):
        returns(proposal, node, one_line(text), [])
    else:
        assigns(proposal, node, one_line(text), [])
