"""A number read from a tensor only to go back into tensor arithmetic stays a tensor.

x * scale.item() -> x * scale.detach()

Unsafe: a 0-d tensor may lead to another dtype than the number, and a tensor of one element with
dimensions to another shape.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import assigned_values, dotted, loads, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.tensors import used_as_tensor, visibly_tensor

CODES = ("PG201", "PG202")
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def propose(proposal: Proposal) -> None:
    """Take the transfer to the host out."""
    call = proposal.around(ast.Call)
    if call is None or proposal.function is None:
        raise Declined("not a call inside a function")
    proposal.message = "Keep the number on the device"
    tensor = _read_tensor(proposal, call)
    if tensor is None:
        raise Declined("not t.item() or float(t)")
    proposal.need(
        "arithmetic",
        _only_arithmetic(proposal, call),
        "the number is used outside tensor arithmetic",
    )
    proposal.safe_if(
        "promotion", False, "a 0-d tensor may lead to another dtype or shape than the number did"
    )
    text = proposal.source.segment(tensor)
    if isinstance(tensor, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        text = f"({text})"
    proposal.replace_node(call, f"{text}.detach()")


def _read_tensor(proposal: Proposal, call: ast.Call) -> ast.expr | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.value if call.func.attr == "item" and not call.args else None
    plain = isinstance(call.func, ast.Name) and call.func.id == "float" and len(call.args) == 1
    return call.args[0] if plain and not proposal.names.taken("float") else None


def _only_arithmetic(proposal: Proposal, call: ast.Call) -> bool:
    """Whether the number, at once or under a name, only meets tensors in arithmetic."""
    function = proposal.function
    assert function is not None
    above = parents(function)
    if _meets_tensor(proposal, above, call):
        return True
    parent = above.get(call)
    named = parent.targets[0] if isinstance(parent, ast.Assign) else None
    if not isinstance(named, ast.Name) or len(stores(function, named.id)) != 1:
        return False
    if assigned_values(function, named.id) != [call]:
        return False
    reads = loads(function, named.id)
    return bool(reads) and all(_meets_tensor(proposal, above, read) for read in reads)


def _meets_tensor(proposal: Proposal, above: dict[ast.AST, ast.AST], node: ast.AST) -> bool:
    parent = above.get(node)
    if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, _ARITHMETIC):
        return False
    other = parent.right if parent.left is node else parent.left
    inner = [item for item in ast.walk(other) if isinstance(item, (ast.Name, ast.Attribute))]
    known = {
        ast.unparse(item)
        for item in inner
        if dotted(item) is not None and used_as_tensor(proposal, item)
    }
    return visibly_tensor(proposal, other, known)
