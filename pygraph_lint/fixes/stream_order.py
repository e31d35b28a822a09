"""Work on a side stream waits for the stream around it, which waits for it in turn.

with torch.cuda.stream(side): ... -> side.wait_stream(torch.cuda.current_stream()) in front of it,
torch.cuda.current_stream().wait_stream(side) behind it

Unsafe: what ran side by side by luck now runs in order.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.imports import use_torch
from pygraph_lint.fixes.names import dotted
from pygraph_lint.fixes.proposal import Declined, Proposal

CODES = ("PG607",)


def propose(proposal: Proposal) -> None:
    """Put the waits that are missing around the block."""
    block = proposal.around(ast.With)
    call = proposal.around(ast.Call)
    if block is None or call is None or proposal.names.callee(call) != "torch.cuda.stream":
        raise Declined("not a block of torch.cuda.stream")
    proposal.message = "Order the side stream with the one around it"
    stream = dotted(call.args[0]) if len(call.args) == 1 else None
    proposal.need("named", stream is not None, "the stream has no name")
    proposal.need("only", len(block.items) == 1, "the block enters more than the stream")
    source = proposal.source
    apart = block.body[0].lineno > block.lineno and source.alone(block.body[-1])
    proposal.need("alone", apart, "the block is written on one line")
    proposal.safe_if("order", False, "what ran side by side now runs in order")
    current = f"{use_torch(proposal)}.cuda.current_stream()"
    before, after = _beside(proposal, block)
    indent, newline = source.indent(block), source.newline
    if not _says(before, f"{stream}.wait_stream"):
        start = source.line_start(block.lineno)
        proposal.replace(start, start, f"{indent}{stream}.wait_stream({current}){newline}")
    if not _says(after, "wait_stream", stream):
        assert block.end_lineno is not None
        end = source.line_start(block.end_lineno) + len(source.line(block.end_lineno))
        proposal.replace(end, end, f"{newline}{indent}{current}.wait_stream({stream})")


def _beside(proposal: Proposal, block: ast.With) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements in front of the block and behind it, in the same block of statements."""
    for name in ("body", "orelse", "finalbody"):
        statements: list[ast.stmt] = getattr(proposal.parent(block), name, [])
        if block in statements:
            at = statements.index(block)
            return statements[:at], statements[at + 1 :]
    raise Declined("the block stands in no sequence of statements")


def _says(statements: list[ast.stmt], method: str, argument: str | None = None) -> bool:
    """Whether one of the statements is a call of such a method, with such an argument."""
    for statement in statements:
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(method):
            given = [dotted(item) for item in call.args]
            if argument is None or argument in given:
                return True
    return False
