"""A list that is made a tensor, and then only gives sizes one by one, stays a list.

if isinstance(lengths, list): lengths = torch.tensor(lengths)
torch.cat([x[i].repeat(lengths[i]) for i in range(len(lengths))])

The first statement goes: each size of a tensor is read back from the device. Unsafe: the tensor
made whole numbers of others.
"""

from __future__ import annotations

import ast

from pygraph_lint.fixes.names import dotted, loads, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.size_uses import Sizes
from pygraph_lint.fixes.unused import take_out

CODES = ("PG104", "PG407")


def propose(proposal: Proposal) -> None:
    """Take the conversion out."""
    proposal.message = "Keep the list: it only gives sizes"
    function = proposal.function
    if not isinstance(function, ast.FunctionDef):
        raise Declined
    inside = {node.id for node in ast.walk(proposal.path[-1]) if isinstance(node, ast.Name)}
    found = [
        (statement, name)
        for statement in function.body
        if (name := _converted(proposal, statement)) is not None and name in inside
    ]
    if len(found) != 1:
        raise Declined
    statement, name = found[0]
    asked = set(ast.walk(statement))
    later = [read for read in loads(function, name) if read not in asked]
    again = [node for node in stores(function, name) if node not in asked]
    parameter = len(again) == 1 and isinstance(again[0], ast.arg)
    proposal.need("parameter", parameter, f"{name} is not only what is passed")
    above, sizes = parents(proposal.source.tree), Sizes(proposal, function)
    fits = all(_gives_size(above, sizes, read) for read in later)
    proposal.need("sizes", fits, f"{name} is used for more than single sizes")
    proposal.safe_if("whole", False, "sizes that are not whole are no longer cut off")
    take_out(proposal, function.body, [statement])


def _converted(proposal: Proposal, statement: ast.stmt) -> str | None:
    """The name in ``if isinstance(name, list): name = torch.tensor(name)``."""
    if not isinstance(statement, ast.If) or statement.orelse or len(statement.body) != 1:
        return None
    test, assign = statement.test, statement.body[0]
    if not isinstance(test, ast.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return None
    name = dotted(test.args[0])
    listed = test.args[1].elts if isinstance(test.args[1], ast.Tuple) else [test.args[1]]
    if not all(isinstance(item, ast.Name) and item.id in ("list", "tuple") for item in listed):
        return None
    if not isinstance(assign, ast.Assign) or [dotted(it) for it in assign.targets] != [name]:
        return None
    call = assign.value
    made = proposal.names.callee(call) in ("torch.tensor", "torch.as_tensor", "torch.LongTensor")
    if not made or not isinstance(call, ast.Call) or not call.args:
        return None
    return name if dotted(call.args[0]) == name else None


def _gives_size(above: dict[ast.AST, ast.AST], sizes: Sizes, read: ast.Name) -> bool:
    """``len(name)``, or ``name[i]`` where a size stands."""
    parent = above[read]
    if isinstance(parent, ast.Call):
        return dotted(parent.func) == "len"
    if not isinstance(parent, ast.Subscript) or not isinstance(parent.ctx, ast.Load):
        return False
    simple = isinstance(parent.slice, (ast.Name, ast.Constant))
    return simple and parent.value is read and sizes.is_size(parent)
