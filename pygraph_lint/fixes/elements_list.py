"""Elements of a tensor that a statement copies to the host one by one are copied at once.

size = shape[0].item() * shape[1].item()    shape_list = shape.tolist()
                                            size = shape_list[0] * shape_list[1]

Unsafe: the tensor has to have one dimension, and all of it is copied.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import loads, parents
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import written
from pygraph_lint.fixes.tensors import shown_in

CODES = ("PG201",)


def propose(proposal: Proposal) -> None:
    """Copy the tensor before the statement."""
    proposal.message = "Copy the elements to the host at once"
    proposal.adds = ("PG203",)
    function = proposal.function
    held = _element(proposal.path[-1])
    if held is None or function is None:
        raise Declined
    statement = proposal.statement
    reads = [node for node in ast.walk(statement) if _element(node) == held]
    if len(reads) < 2 or not isinstance(statement, (ast.Assign, ast.Return)):
        raise Declined
    if not shown_in(function, held):
        raise Declined(f"nothing shows that {held} is a tensor")
    proposal.need("own-line", proposal.source.alone(statement), "the line holds more than this")
    copied = {node for read in reads for node in ast.walk(read)}
    elsewhere = any(node not in copied for node in loads(statement, held))
    proposal.need("only-elements", not elsewhere, f"the statement uses {held} itself too")
    above = parents(proposal.source.tree)
    always = all(_always(above, read, statement) for read in reads)
    proposal.need("always", always, "not all of them are copied in any case")
    proposal.safe_if(
        "one-dimension", False, f"{held} has to have one dimension, and all of it is copied"
    )
    name = proposal.names.free(f"{held}_list")
    source = proposal.source
    line = written(proposal, source.indent(statement), [f"{name} = {held}.tolist()"])
    start = source.line_start(statement.lineno)
    proposal.replace(start, start, line + source.newline)
    for read in reads:
        assert isinstance(read, ast.Call) and isinstance(read.func, ast.Attribute)
        assert isinstance(read.func.value, ast.Subscript)
        proposal.replace_node(read, f"{name}[{source.segment(read.func.value.slice)}]")


def _element(node: ast.AST) -> str | None:
    """``name`` of ``name[2].item()``."""
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return None
    read = node.func.value if isinstance(node.func, ast.Attribute) else None
    if not isinstance(read, ast.Subscript) or node.func.attr != "item":  # type: ignore[attr-defined]
        return None
    place = read.slice.operand if isinstance(read.slice, ast.UnaryOp) else read.slice
    number = isinstance(place, ast.Constant) and type(place.value) is int
    return read.value.id if number and isinstance(read.value, ast.Name) else None


def _always(above: dict[ast.AST, ast.AST], node: ast.AST, statement: ast.stmt) -> bool:
    """Whether an expression is evaluated whenever its statement is, and then once."""
    choosing = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.GeneratorExp)
    while node is not statement:
        node = above[node]
        chained = isinstance(node, ast.Compare) and len(node.ops) > 1
        if chained or isinstance(node, (*choosing, ast.DictComp)):
            return False
    return True
