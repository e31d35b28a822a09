"""A generator that a capture draws from is registered with its graph before.

with torch.cuda.graph(g): -> g.register_generator_state(generator) in front of it

Unsafe: each replay then moves the generator on, where the capture was refused before.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG606",)


def propose(proposal: Proposal) -> None:
    """Put the registration in front of the capture."""
    call = proposal.around(ast.Call)
    given = [item.value for item in call.keywords if item.arg == "generator"] if call else []
    generator = dotted(given[0]) if given else None
    if generator is None:
        raise Declined("the generator has no name")
    proposal.message = "Register the generator with the graph before the capture"
    block, graph = _capture(proposal)
    proposal.need("graph", graph is not None, "the graph has no name")
    proposal.safe_if("draws", False, "each replay moves the generator on")
    start = proposal.source.line_start(block.lineno)
    line = f"{proposal.source.indent(block)}{graph}.register_generator_state({generator})"
    proposal.replace(start, start, line + proposal.source.newline)


def _capture(proposal: Proposal) -> tuple[ast.With, str | None]:
    """The ``with torch.cuda.graph(...)`` around the draw, and the graph's name."""
    for node in reversed(proposal.path):
        for item in node.items if isinstance(node, ast.With) else ():
            call = item.context_expr
            if proposal.names.callee(call) == "torch.cuda.graph":
                assert isinstance(node, ast.With) and isinstance(call, ast.Call)
                named = [one.value for one in call.keywords if one.arg == "cuda_graph"]
                given = [*call.args[:1], *named]
                return node, dotted(given[0]) if given else None
    raise Declined("the draw is not inside torch.cuda.graph")
