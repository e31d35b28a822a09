"""The largest number of rows that a loop has on the host is taken there.

for t, h, w in grid.tolist():          grid_list = grid.tolist()
    ...                                for t, h, w in grid_list:
size = grid[:, 1:].max()         ->        ...
x = torch.arange(size)                 size = max(max(row[1:]) for row in grid_list)
                                       x = torch.arange(size)

The number may also go to a module of the file that makes the range. Unsafe: without rows another
error is raised, and the loop may change the tensor.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

from pygraph_lint.fixes.caller_sizes import user_of
from pygraph_lint.fixes.names import Names, assigned_values, loads, parameters, parents, stores
from pygraph_lint.fixes.proposal import Declined, Proposal
from pygraph_lint.fixes.statements import written

CODES = ("PG407",)


class _Maximum(NamedTuple):
    """``name = tensor[:, first:].max()``."""

    statement: ast.Assign
    tensor: str
    first: int


def propose(proposal: Proposal) -> None:
    """Copy the rows once, and look through them."""
    function, call = proposal.function, proposal.path[-1]
    if not isinstance(function, ast.FunctionDef) or proposal.names.callee(call) != "torch.arange":
        raise Declined
    assert isinstance(call, ast.Call)
    read = call.args[0] if len(call.args) == 1 else None
    if not isinstance(read, ast.Name):
        raise Declined
    holder, path, name, taken = function, proposal.path, read.id, [read]
    if read.id in [item.arg for item in parameters(function)]:
        owner = proposal.around(ast.ClassDef)
        if owner is None or loads(function, read.id) != [read]:
            raise Declined
        use = user_of(proposal, owner, function, read.id)
        proposal.remains = True  # a class in another file may pass a tensor, too
        holder, name = use.method, use.passed
        path = [proposal.source.tree, use.owner, holder]
        taken = [node for node in ast.walk(use.call) if node in loads(holder, name)]
    maximum = _maximum(holder, name)
    proposal.message = "Take the maximum of the rows that the host has"
    proposal.need("sizes", loads(holder, name) == taken, f"{name} is used for more than a range")
    loop, copied = _loop(holder, maximum)
    again = len(stores(holder, maximum.tensor)) > 1
    proposal.need("same", not again, f"{maximum.tensor} is another one in between")
    names = Names(proposal.file_names, path)
    builtin = not names.taken("max")
    proposal.need("builtin", builtin, "max is another name here")
    proposal.safe_if(
        "rows",
        False,
        "without rows another error is raised, and the loop may change the tensor",
    )
    listed = names.free(f"{maximum.tensor}_list")
    source = proposal.source
    line = f"{listed} = {maximum.tensor}.tolist()"
    start = source.line_start(loop.lineno)
    proposal.replace(start, start, written(proposal, source.indent(loop), [line]) + source.newline)
    proposal.replace_node(copied, listed)
    row = f"row[{maximum.first}:]" if maximum.first else "row"
    proposal.replace_node(maximum.statement.value, f"max(max({row}) for row in {listed})")


def _maximum(holder: ast.FunctionDef, name: str) -> _Maximum:
    """The statement that takes the maximum, one of the function's own."""
    values = assigned_values(holder, name) or []
    made = [it for it in holder.body if isinstance(it, ast.Assign) and it.value in values]
    value = values[0] if len(values) == len(made) == 1 else None
    called = value.func if isinstance(value, ast.Call) else None
    assert value is None or isinstance(value, ast.expr)
    if not isinstance(called, ast.Attribute) or called.attr != "max" or len(made[0].targets) != 1:
        raise Declined
    assert isinstance(value, ast.Call)
    if value.args or value.keywords:
        raise Declined
    whole, first = called.value, 0
    if isinstance(whole, ast.Subscript):
        index = ast.unparse(whole.slice).strip("()").replace(" ", "")
        number = index.removeprefix(":,").removesuffix(":")
        if not index.startswith(":,") or not index.endswith(":") or not number.isdecimal():
            raise Declined
        whole, first = whole.value, int(number)
    if not isinstance(whole, ast.Name):
        raise Declined
    return _Maximum(made[0], whole.id, first)


def _loop(holder: ast.FunctionDef, maximum: _Maximum) -> tuple[ast.For, ast.expr]:
    """The loop above it that takes the tensor's rows apart, and the copy that it loops over."""
    for node in holder.body[: holder.body.index(maximum.statement)]:
        if not isinstance(node, ast.For):
            continue
        above = parents(node)
        for read in loads(node.iter, maximum.tensor):
            copied = above.get(above[read])
            parts = node.iter.args if isinstance(node.iter, ast.Call) else []
            text = f"{maximum.tensor}.tolist()"
            if not isinstance(copied, ast.expr) or ast.unparse(copied) != text:
                continue
            target: ast.expr = node.target
            if copied in parts and ast.unparse(node.iter.func) == "zip":  # type: ignore[attr-defined]
                targets = target.elts if isinstance(target, ast.Tuple) else []
                target = dict(zip(parts, targets, strict=False)).get(copied, target)
            elif copied is not node.iter:
                continue
            if isinstance(target, (ast.Tuple, ast.List)):
                return node, copied
    raise Declined("no loop above has the rows on the host")
